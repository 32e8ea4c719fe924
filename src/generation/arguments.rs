//! What a call is given beside its prompts and its configuration.

use std::rc::Rc;

use super::{
    callbacks::{Callbacks, Functions},
    candidates::{Assistant, Drafter},
    config::{PlanSetting, Source},
    engine::{Engine, Shared},
    healing::Healing,
    inputs::{self, Prompt},
    plan::{Plan, Strategy},
    processors::{Guidance, Mirostat, Stage},
    selection::Selection,
    value::Value,
};
use crate::error::{Error, ErrorKind, Result};

/// Arguments of a call that are no fields of its configuration.
#[derive(Default)]
pub struct Arguments {
    /// A smaller model that proposes tokens. It is not this model, and may have another tokenizer.
    pub assistant: Option<Engine>,
    /// What guidance leads away from: one for all prompts, or one for each. Where there is none it is
    /// the last token of the prompt.
    pub negative_prompts: Option<Vec<Prompt>>,
    /// For each prompt, which of its ids count. Those that do not are padding, all on the left.
    pub attention_mask: Option<Vec<Vec<bool>>>,
    /// The caller's own functions.
    pub callbacks: Option<Rc<dyn Callbacks>>,
    /// Whether to measure how long the device takes for each kernel. The answer is the same, and comes later.
    pub profile: bool,
}

/// A prompt, and the negative prompt where there is guidance. Both are checked, and not empty.
pub(super) struct Prepared {
    pub prompt: Vec<u32>,
    pub negative_prompt: Option<Vec<u32>>,
    /// Whether that is the prompt's last token, for want of one of the caller's.
    pub leads_from_last: bool,
    /// The prompt's last token, where it is taken back to be chosen again.
    pub healing: Option<Healing>,
}

/// Fields that only an assistant reads.
const ASSISTANT_FIELDS: [&str; 6] = [
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_lookbehind",
    "target_lookbehind",
    "assistant_ensemble_weight",
];

impl Arguments {
    /// A mask as a caller writes it: 1 for an id that counts and 0 for padding, in a list for one prompt
    /// or in a list of lists.
    pub fn parse_mask(mask: &Value) -> Result<Vec<Vec<bool>>> {
        match mask {
            Value::List(rows) if matches!(rows.first(), Some(Value::List(_))) => {
                rows.iter().map(mask_row).collect()
            }
            one => Ok(vec![mask_row(one)?]),
        }
    }

    /// How many functions of the caller's there are.
    pub(super) fn functions(&self) -> Functions {
        let callbacks = self.callbacks.as_ref();
        callbacks.map_or_else(Functions::default, |callbacks| callbacks.functions())
    }

    /// The ids of `prompts`, checked, with the negative prompts where `plan` has use for them.
    pub(super) fn prepare(
        &self,
        prompts: &[Prompt],
        engine: &Shared,
        plan: &mut Plan,
    ) -> Result<Vec<Prepared>> {
        let guided = plan.processors.iter();
        let guided = guided.map(Stage::name).any(|name| name == Guidance::NAME);
        if self.negative_prompts.is_some() && !guided {
            plan.warn(
                "negative_prompt",
                "it has no effect, because guidance_scale is not set or 1".into(),
            );
        }
        let negative = self.negative_prompts.as_deref().filter(|_| guided);
        let negative = negative.unwrap_or_default();
        if negative.len() > 1 && negative.len() != prompts.len() {
            let (found, wanted) = (negative.len(), prompts.len());
            return Err(Error::option(
                "negative_prompt",
                format!("found {found} prompts, allowed: one, or {wanted}, one for each prompt"),
            ));
        }
        if let Some(mask) = self
            .attention_mask
            .as_ref()
            .filter(|m| m.len() != prompts.len())
        {
            let (found, wanted) = (mask.len(), prompts.len());
            return Err(Error::option(
                "attention_mask",
                format!("found {found} rows, allowed: {wanted}, one for each prompt"),
            ));
        }
        let prepared = prompts.iter().enumerate().map(|(at, prompt)| {
            let mask = self.attention_mask.as_ref().map(|rows| rows[at].as_slice());
            let mut prompt = ids(prompt, mask, engine, plan)?;
            let given = negative.get(at).or(negative.first());
            let negative_prompt = match (guided, given) {
                (false, _) => None,
                (true, None) => prompt.last().map(|last| vec![*last]),
                (true, Some(negative)) => Some(negative_ids(negative, &prompt, engine, plan)?),
            };
            // A prompt of one token begins with one more when it is healed.
            let room = prompt.len() > 1 || plan.longest(2) > 2;
            let heals = plan.tactics.token_healing && room;
            let start = engine.model.bos_token_id;
            let healing = heals.then(|| Healing::begin(&mut prompt, &engine.tokenizer, start));
            Ok(Prepared {
                prompt,
                negative_prompt,
                leads_from_last: given.is_none(),
                healing: healing.flatten(),
            })
        });
        let named = prepared
            .enumerate()
            .map(|(at, prepared): (usize, Result<_>)| {
                prepared.map_err(|error| inputs::in_prompt(at, prompts.len(), &error))
            });
        named.collect()
    }

    /// Who proposes tokens, if anyone does.
    pub(super) fn drafter(
        &self,
        prompts: &[Prepared],
        engine: &Shared,
        plan: &mut Plan,
    ) -> Result<Option<Drafter>> {
        let tactics = plan.tactics;
        if self.assistant.is_none() {
            let set = |setting: &&PlanSetting| {
                setting.source == Source::Call && ASSISTANT_FIELDS.contains(&setting.name)
            };
            let idle: Vec<_> = plan.settings.iter().filter(set).map(|s| s.name).collect();
            for name in idle {
                plan.warn(
                    name,
                    "it has no effect, because there is no assistant_model".into(),
                );
            }
        }
        let (name, lookup) = match (&self.assistant, tactics.lookup) {
            (None, None) => return Ok(None),
            (Some(_), None) => ("assistant_model", None),
            (None, lookup) => ("prompt_lookup_num_tokens", lookup),
            (Some(_), Some(_)) => {
                let message =
                    "found together with prompt_lookup_num_tokens, allowed: one of the two";
                return Err(Error::option("assistant_model", message));
            }
        };
        let alone = [
            (prompts.len() == 1, "one prompt"),
            (tactics.answers == 1, "one answer (num_return_sequences 1)"),
            (tactics.beams.is_none(), "one beam (num_beams 1)"),
            (tactics.use_cache, "a cache (use_cache true)"),
        ];
        if let Some((_, needs)) = alone.iter().find(|(holds, _)| !holds) {
            return Err(Error::option(name, format!("allowed: only with {needs}")));
        }
        if plan
            .processors
            .iter()
            .any(|stage| stage.name() == Mirostat::NAME)
        {
            return Err(Error::option(Mirostat::NAME, Mirostat::ALONE));
        }
        plan.strategy = Strategy::Assisted;
        Ok(Some(match (lookup, &self.assistant) {
            (Some(settings), _) => Drafter::Lookup(settings),
            (None, assistant) => {
                let assistant = assistant.as_ref().map(Engine::shared);
                let assistant = assistant.ok_or_else(|| Error::internal("no assistant"))?;
                let longest = plan.longest(prompts[0].prompt.len());
                let assistant = Assistant::new(assistant, engine, tactics.assistant, longest);
                let draws = matches!(plan.selection, Selection::Multinomial { .. });
                if tactics.assistant.ensemble_weight.is_some()
                    && !(draws && assistant.has_same_tokens())
                {
                    let message =
                        "allowed: only with do_sample and an assistant that has the same tokenizer";
                    return Err(Error::option("assistant_ensemble_weight", message));
                }
                Drafter::Assistant(Box::new(assistant))
            }
        }))
    }
}

fn mask_row(row: &Value) -> Result<Vec<bool>> {
    let refusal = |found: &Value| {
        let message = format!("found {found}, allowed: a list of 0 and 1, or a list of such lists");
        Error::option("attention_mask", message)
    };
    let Value::List(values) = row else {
        return Err(refusal(row));
    };
    let counts = |value: &Value| match value {
        Value::Number(0.0) | Value::Boolean(false) => Ok(false),
        Value::Number(1.0) | Value::Boolean(true) => Ok(true),
        other => Err(refusal(other)),
    };
    values.iter().map(counts).collect()
}

/// The ids of a prompt without its padding.
fn ids(prompt: &Prompt, mask: Option<&[bool]>, engine: &Shared, plan: &Plan) -> Result<Vec<u32>> {
    let start = inputs::start_token(plan);
    let ids = match (prompt, mask) {
        (prompt, None) => prompt.encode(&engine.tokenizer, engine.model.vocabulary, start)?,
        (Prompt::Ids(ids), Some(mask)) => {
            let counting = inputs::without_padding(ids, mask)?;
            let counting = Prompt::Ids(counting.to_vec());
            counting.encode(&engine.tokenizer, engine.model.vocabulary, start)?
        }
        (_, Some(_)) => {
            let message = "found together with a prompt of text, allowed: only with token ids";
            return Err(Error::option("attention_mask", message));
        }
    };
    inputs::check_length(ids.len(), plan)?;
    Ok(ids)
}

/// The ids of a negative prompt; the answer must have room after it, as it has after the `prompt`.
fn negative_ids(
    negative: &Prompt,
    prompt: &[u32],
    engine: &Shared,
    plan: &Plan,
) -> Result<Vec<u32>> {
    let ids = negative.encode(&engine.tokenizer, engine.model.vocabulary, None);
    let ids =
        ids.map_err(|error| Error::new(error.kind().clone(), format!("negative prompt: {error}")))?;
    let limit = engine.model.context_length;
    let answer = plan.longest(prompt.len()) - prompt.len();
    if ids.len() + answer > limit {
        let length = ids.len();
        return Err(Error::new(
            ErrorKind::ContextFull { limit },
            format!(
                "the negative prompt has {length} tokens, the answer up to {answer}, and the context {limit}: shorten the negative prompt, or lower max_new_tokens"
            ),
        ));
    }
    Ok(ids)
}
