//! A model that is a table, on the device and on the host: a token's row is the scores of what follows it.

use decant::{
    exec::{
        Executor, TapeId,
        gpu::{Gpu, GpuOptions},
        sample::{Change, Choice, Edit, Pick, Row, Run, Sampler, When},
    },
    generation::{
        Value,
        processors::{self, apply_processors},
        selection::{Draw, Selection},
    },
    ops::{BufferSpec, Op, Rows, SelectRows},
    tape::Step,
};
use pollster::block_on;

use crate::{gpu, support::scene::Scene};

/// Sequences of a test, and the most steps of one.
pub const SEQUENCES: usize = 3;
pub const POSITIONS: usize = 64;

/// A table of scores on the device.
pub struct Chain {
    pub gpu: Gpu,
    pub table: Vec<f32>,
    vocabulary: usize,
}

impl Chain {
    /// The chain of `tokens` tokens whose scores are `table`, row after row; of `vocabulary` each.
    pub fn new(vocabulary: usize, table: Vec<f32>) -> Option<Self> {
        // Three rows need two dimensions of workgroups then.
        let options = GpuOptions {
            group_limit: Some(2),
            ..GpuOptions::default()
        };
        let mut gpu = gpu(options)?;
        let mut scene = Scene::new(SEQUENCES, 1);
        scene.sequences = SEQUENCES;
        scene.pages_per_sequence = POSITIONS;
        let x = scene.input("x", vocabulary, &table);
        scene.tape.buffers.push(BufferSpec {
            name: "logits".into(),
            rows: Rows::Outputs,
            columns: vocabulary,
        });
        let out = decant::ops::BufferId(scene.tape.buffers.len() - 1);
        scene.op(Op::SelectRows(SelectRows { x, out }));
        scene.tape.logits = out;
        block_on(scene.load(&mut gpu)).unwrap();
        assert!(!gpu.samples());
        block_on(gpu.prepare_sampling()).unwrap();
        assert!(gpu.samples());
        Some(Self {
            gpu,
            table,
            vocabulary,
        })
    }

    fn row(&self, token: u32) -> &[f32] {
        &self.table[token as usize * self.vocabulary..][..self.vocabulary]
    }

    /// Runs `steps` after `sequences`, in two runs of which the second resumes the first; then follows the
    /// host to the same ids.
    pub fn check(&self, what: &str, call: &Call, sequences: &[Vec<u32>], steps: usize) {
        let rows = |done: usize| -> Vec<Row> {
            let rows = sequences
                .iter()
                .zip(call.numbers())
                .map(|(ids, sequence)| Row {
                    sequence,
                    ids,
                    prompt_length: call.prompt_length,
                    new_tokens: ids.len() - call.prompt_length + done,
                    limit: call.limit,
                });
            rows.collect()
        };
        let mut found = vec![Vec::new(); sequences.len()];
        let first = steps.div_ceil(2);
        for (done, count, resume) in [(0, first, false), (first, steps - first, true)] {
            if count == 0 {
                continue;
            }
            let step = step(sequences, done);
            let run = Run {
                sampler: &call.sampler,
                rows: &rows(done),
                steps: count,
                resume,
            };
            let picks = block_on(self.gpu.sample(TapeId(0), &step, &run)).unwrap();
            assert_eq!(picks.len(), count * sequences.len());
            for (at, pick) in picks.into_iter().enumerate() {
                found[at % sequences.len()].push(pick);
            }
        }
        for ((ids, sequence), found) in sequences.iter().zip(call.numbers()).zip(found) {
            let mut ids = ids.clone();
            let mut expected = Vec::new();
            for pick in &found {
                let scores = self.row(*ids.last().unwrap());
                let (token, scores) = call.choose(scores, &ids, sequence);
                ids.push(token);
                expected.push(Choice::Token(token));
                if call.sampler.best > 0 && pick.choice == Choice::Token(token) {
                    check_report(what, pick, token, &scores, call.sampler.best);
                }
            }
            let found: Vec<Choice> = found.iter().map(|pick| pick.choice).collect();
            assert_eq!(found, expected, "{what}: sequence {sequence}");
        }
    }
}

/// Compares what is reported of a choice with the host's processed scores.
///
/// A score is a few operations on numbers below 32, each of which rounds by 2⁻²⁰ at most. A weight is a whole
/// number of 2⁻³¹ and its logarithm is off by 2⁻²⁰.
fn check_report(what: &str, pick: &Pick, token: u32, scores: &[f32], best: usize) {
    let allowed = 2f64.powi(-17) + scores.len() as f64 * 2f64.powi(-32);
    let close = |a: f32, b: f64| (f64::from(a) - b).abs() <= allowed;
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    order.retain(|&id| scores[id as usize] != f32::NEG_INFINITY);
    order.sort_by(|&a, &b| {
        scores[b as usize]
            .total_cmp(&scores[a as usize])
            .then(a.cmp(&b))
    });
    let total = order.iter().map(|&id| f64::from(scores[id as usize]).exp());
    let total = total.sum::<f64>().ln();
    order.truncate(best);
    let found: Vec<u32> = pick.best.iter().map(|&(id, _)| id).collect();
    assert_eq!(found, order, "{what}");
    let reported = pick.best.iter().copied().chain([(token, pick.score)]);
    for (id, score) in reported {
        let expected = f64::from(scores[id as usize]);
        assert!(
            close(score, expected),
            "{what}: {id} has {score}, not {expected}"
        );
    }
    let found = pick.total;
    assert!(
        close(found, total),
        "{what}: a total of {found}, not {total}"
    );
}

/// A call, as both sides see it.
pub struct Call {
    pub sampler: Sampler,
    /// The same filters by their fields.
    filters: serde_json::Value,
    pub prompt_length: usize,
    pub limit: usize,
}

impl Call {
    pub fn new(edits: Vec<Edit>, seed: Option<u64>) -> Self {
        Self {
            sampler: Sampler {
                edits,
                seed,
                ..Sampler::default()
            },
            filters: serde_json::json!({ "do_sample": true, "top_k": 0 }),
            prompt_length: 2,
            limit: 100,
        }
    }

    pub fn filtered(seed: u64, top_k: usize, top_p: Option<f64>, min_p: Option<f64>) -> Self {
        let mut call = Self::new(Vec::new(), Some(seed));
        call.sampler.top_k = top_k;
        call.sampler.removable = top_p.map(|p| (1.0 - p) as f32);
        call.sampler.min_p = min_p.unwrap_or(0.0) as f32;
        call.filters = serde_json::json!({
            "do_sample": true, "top_k": top_k, "top_p": top_p.unwrap_or(1.0), "min_p": min_p,
        });
        call
    }

    /// Filters by their fields.
    pub fn of(seed: u64, fields: &[(&str, f64)]) -> Self {
        let mut call = Self::new(Vec::new(), Some(seed));
        for &(name, value) in fields {
            let sampler = &mut call.sampler;
            match name {
                "top_k" => sampler.top_k = value as usize,
                "top_p" => sampler.removable = Some((1.0 - value) as f32),
                "min_p" => sampler.min_p = value as f32,
                "typical_p" => sampler.typical = value as f32,
                "epsilon_cutoff" => sampler.epsilon = value as f32,
                "eta_cutoff" => sampler.eta = value as f32,
                _ => panic!("{name} is no filter"),
            }
            call.filters[name] = match name {
                "top_k" => (value as u64).into(),
                _ => value.into(),
            };
        }
        call
    }

    /// Numbers of sequences in a call, not in order.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        [7, 0, 3].into_iter()
    }

    /// What the host chooses, and the scores it chooses from.
    fn choose(&self, scores: &[f32], ids: &[u32], sequence: u32) -> (u32, Vec<f32>) {
        let new_tokens = ids.len() - self.prompt_length;
        let mut scores = scores.to_vec();
        if self.sampler.search {
            let total = scores.iter().map(|&score| f64::from(score).exp());
            let total = total.sum::<f64>().ln() as f32;
            scores.iter_mut().for_each(|score| *score -= total);
        }
        for edit in &self.sampler.edits {
            let applies = match &edit.when {
                When::Always => true,
                When::NewTokensBelow(count) => new_tokens < *count as usize,
                When::LengthBelow(count) => ids.len() < *count as usize,
                When::NewTokensAre(count) => new_tokens == *count as usize,
                When::LengthIs(count) => ids.len() == *count as usize,
                When::Last => ids.len() + 1 == self.limit,
                When::Begins(place) if self.prompt_length == 1 => new_tokens == *place as usize,
                When::Begins(_) => new_tokens == 0,
                When::After(beginning) => ids.ends_with(beginning),
            };
            if applies {
                apply(&edit.change, &mut scores, ids, self.prompt_length);
            }
        }
        let Some(seed) = self.sampler.seed else {
            let draw = Draw { sequence, step: 0 };
            return (Selection::Greedy.select(&scores, draw).unwrap(), scores);
        };
        let config = Value::from(&self.filters);
        let row = processors::Row {
            ids,
            prompt_length: self.prompt_length,
            ..processors::Row::default()
        };
        let applied = apply_processors(&scores, row, &config).unwrap();
        let scores = applied.last().map_or(scores, |last| last.scores.clone());
        let draw = Draw {
            sequence,
            step: new_tokens as u32,
        };
        let selection = Selection::Multinomial { seed };
        (selection.select(&scores, draw).unwrap(), scores)
    }
}

/// An edit, naively.
fn apply(change: &Change, scores: &mut [f32], ids: &[u32], prompt_length: usize) {
    let answer = &ids[prompt_length..];
    for (id, score) in scores.iter_mut().enumerate() {
        let occurrences = answer.iter().filter(|&&a| a as usize == id).count();
        let listed = |list: &[u32]| list.contains(&(id as u32));
        match change {
            Change::Repetition(penalty) if listed(ids) => {
                *score = if *score < 0.0 {
                    *score * penalty
                } else {
                    *score / penalty
                };
            }
            Change::Repetition(_) => {}
            Change::Frequency(penalty) => (0..occurrences).for_each(|_| *score -= penalty),
            Change::Presence(penalty) if occurrences > 0 => *score -= penalty,
            Change::Presence(_) => {}
            Change::Temperature(temperature) => *score /= temperature,
            Change::Add(biases) => {
                let bias = biases.iter().find(|bias| bias.0 as usize == id);
                *score += bias.map_or(0.0, |bias| bias.1);
            }
            Change::Remove(list) if listed(list) => *score = f32::NEG_INFINITY,
            Change::Remove(_) => {}
            Change::Force(list) => *score = if listed(list) { 0.0 } else { f32::NEG_INFINITY },
            Change::Grow { ids, start, factor } if listed(ids) && score.is_finite() => {
                let beyond = answer.len().saturating_sub(*start as usize) as i32;
                let growth = f64::from(*factor).powi(beyond) - 1.0;
                let grown = f64::from(*score) + f64::from(score.abs()) * growth;
                *score = grown.min(f32::MAX.into()) as f32;
            }
            Change::Grow { .. } => {}
            Change::NoRepeat(size) => {
                let ngram = [
                    &ids[(ids.len() + 1).saturating_sub(*size as usize)..],
                    &[id as u32],
                ];
                let ngram = ngram.concat();
                if ngram.len() == *size as usize && ids.windows(ngram.len()).any(|w| w == ngram) {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
    }
}

/// The step that evaluates what follows each sequence, `done` tokens later.
pub fn step(sequences: &[Vec<u32>], done: usize) -> Step {
    let rows = 0..sequences.len() as u32;
    Step {
        tokens: sequences.iter().map(|ids| *ids.last().unwrap()).collect(),
        positions: sequences
            .iter()
            .map(|ids| (ids.len() - 1 + done) as u32)
            .collect(),
        slots: rows.clone().collect(),
        outputs: rows.collect(),
        tables: vec![vec![0; POSITIONS]; sequences.len()],
        ..Step::default()
    }
}

/// An edit of every step.
pub fn always(change: Change) -> Edit {
    Edit {
        change,
        when: When::Always,
    }
}
