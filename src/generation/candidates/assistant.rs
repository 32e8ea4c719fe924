//! An assistant: a smaller model that goes on from the text for a few tokens.

use std::{mem::take, rc::Rc};

use super::{
    AssistantSettings, Draft, Schedule, Start, process, schedule::Course, translate::Translator,
};
use crate::{
    error::Result,
    generation::{
        batch::pack,
        engine::Shared,
        plan::Plan,
        processors::{Scratch, softmax},
        selection::{Draw, Selection},
        sequence::Track,
    },
    tape::Step,
};

/// An assistant at work for one sequence.
pub(in crate::generation) struct Assistant {
    engine: Rc<Shared>,
    settings: AssistantSettings,
    course: Course,
    /// What it has read; begun with the first draft.
    track: Track,
    /// Positions it may come to need.
    capacity: usize,
    /// Between its tokens and the model's, where they differ.
    translator: Option<Translator>,
    step: Step,
    rows: Vec<usize>,
}

impl Assistant {
    /// `engine` as an assistant of `model`, for sequences of at most `longest` tokens.
    pub fn new(
        engine: Rc<Shared>,
        model: &Shared,
        settings: AssistantSettings,
        longest: usize,
    ) -> Self {
        let translator = Translator::between(&model.tokenizer, &engine.tokenizer, &settings);
        let learned = engine.draft_tokens.get();
        let tokens = match (settings.schedule, learned) {
            (Schedule::Heuristic, Some((first, learned))) if first == settings.tokens => learned,
            _ => settings.tokens,
        };
        // The same text may take more tokens of another tokenizer.
        let longest = longest.saturating_mul(if translator.is_some() { 8 } else { 1 });
        Self {
            capacity: longest.min(engine.model.context_length),
            engine,
            course: Course::new(&settings, tokens, translator.is_none()),
            settings,
            track: Track::new(Vec::new()),
            translator,
            step: Step::default(),
            rows: Vec::new(),
        }
    }

    /// Whether its tokens are the model's.
    pub fn has_same_tokens(&self) -> bool {
        self.translator.is_none()
    }

    /// What may follow.
    pub async fn draft(
        &mut self,
        start: Start<'_>,
        plan: &Plan,
        scratch: &mut Scratch,
    ) -> Result<Draft> {
        self.course.begin();
        let mut draft = Draft {
            weight: self.settings.ensemble_weight,
            ..Draft::default()
        };
        let (most, ids) = match &mut self.translator {
            None => (self.course.tokens.min(start.room), start.ids.to_vec()),
            // Many of its tokens may be one of the model's.
            Some(translator) => (self.course.tokens, translator.read(start.ids)?),
        };
        let known = self.engine.model.vocabulary;
        let unknown = |id: &u32| *id as usize >= known;
        // The last token that it proposes is not evaluated.
        let most = most.min((self.capacity + 1).saturating_sub(ids.len()));
        if most == 0 || start.room == 0 || ids.is_empty() || ids.iter().any(unknown) {
            return Ok(draft);
        }
        self.read(ids)?;
        let first = self.track.ids.len();
        let vocabulary = match &self.translator {
            None => plan.tactics.vocabulary,
            Some(_) => self.engine.model.vocabulary,
        };
        let mut probabilities = vec![0.0; vocabulary];
        while self.track.ids.len() < first + most {
            self.evaluate().await?;
            let scores = &mut self.track.logits;
            // What the model does not have, it cannot accept.
            scores.resize(vocabulary, f32::NEG_INFINITY);
            let drawn = match (&self.translator, plan.selection) {
                (None, selection) => {
                    let ids = &self.track.ids;
                    process(plan, ids, start.prompt_length, scores, scratch);
                    selection
                }
                (Some(_), _) => Selection::Greedy,
            };
            let draw = Draw {
                sequence: 0,
                step: (self.track.ids.len() - first + start.ids.len() - start.prompt_length) as u32,
            };
            // What the processors leave may be nothing that the assistant knows.
            if scores.iter().all(|score| *score == f32::NEG_INFINITY) {
                break;
            }
            let token = drawn.propose(scores, draw)?;
            softmax(scores, &mut probabilities);
            let last = self.course.propose(probabilities[token as usize].into());
            if matches!(drawn, Selection::Multinomial { .. }) {
                draft.distributions.push(probabilities.clone());
            }
            self.track.ids.push(token);
            if last || unknown(&token) || self.ends(token, plan) {
                break;
            }
        }
        draft.tokens = match &self.translator {
            None => self.track.ids[first..].to_vec(),
            Some(translator) => translator.to_model(start.ids, &self.track.ids, first)?,
        };
        // A tokenizer may have tokens that the model has no scores for.
        let mut tokens = draft.tokens.iter();
        let beyond = tokens.position(|id| *id as usize >= plan.tactics.vocabulary);
        draft
            .tokens
            .truncate(beyond.unwrap_or(start.room).min(start.room));
        Ok(draft)
    }

    /// Learns that of the last draft's `drafted` tokens `accepted` were right.
    pub fn learn(&mut self, drafted: usize, accepted: usize) {
        self.course.learn(drafted, accepted);
        if self.settings.schedule == Schedule::Heuristic {
            let learned = (self.settings.tokens, self.course.tokens);
            self.engine.draft_tokens.set(Some(learned));
        }
    }

    /// Makes `ids` the text; what it has in common with the text before stays evaluated.
    fn read(&mut self, ids: Vec<u32>) -> Result<()> {
        let before = take(&mut self.track.ids);
        let same = before.iter().zip(&ids).take_while(|(a, b)| a == b).count();
        let same = same.min(ids.len() - 1);
        self.track.ids = ids;
        match &mut self.track.table {
            Some(table) => table.rewind(same),
            None => self.track.begin(&self.engine, self.capacity + 1, 1, true)?,
        }
        Ok(())
    }

    /// Evaluates what is not evaluated, for the logits after the last token.
    async fn evaluate(&mut self) -> Result<()> {
        let executor = self.engine.executor()?;
        self.track.logits.clear();
        while let Some(pending) = self.track.pending(usize::MAX)
            && pending.table.length() < pending.ids.len()
        {
            let tape = pack(
                &self.engine.capacity,
                &mut [pending],
                &*executor,
                &mut self.step,
                &mut self.rows,
            )?;
            let logits = executor.forward(tape, &self.step).await?;
            let mut rows = logits.chunks_exact(self.engine.model.vocabulary);
            self.track.advance(self.rows[0], &mut rows);
        }
        Ok(())
    }

    /// Whether nothing can follow `token`, which the assistant proposed.
    fn ends(&self, token: u32, plan: &Plan) -> bool {
        match self.translator {
            None => plan.eos_token_ids().contains(&token),
            Some(_) => self.engine.model.eos_token_ids.contains(&token),
        }
    }
}

/// What it has read is kept for a text that begins alike.
impl Drop for Assistant {
    fn drop(&mut self) {
        if let Some(table) = self.track.table.take() {
            table.retain(&self.track.ids);
        }
    }
}
