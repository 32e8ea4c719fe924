//! Where a call's tokens are chosen: on the device, where its options allow that, or on the host.
//!
//! Both homes have one meaning. The device chooses where the scores are and goes on by itself; the host
//! sees every step, as whatever has no form on the device needs.

use super::{
    plan::{Home, Plan},
    processors::Work,
    selection::Selection,
};
use crate::exec::sample::{Edit, Sampler};

/// The form of a processor on the device.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceForm {
    /// A change of scores that depends on a token and what occurred.
    Edit(Edit),
    /// Keeps as many of the best tokens.
    TopK(usize),
    /// Removes tokens of this probability from below.
    Removable(f32),
    /// Keeps tokens of at least this share of the best one's probability.
    MinP(f32),
}

/// Lists on the device hold this many ids, all processors' together.
const LISTED: usize = 8192;

impl From<&Result<Sampler, &'static str>> for Home {
    /// Where tokens are chosen that a sampler was sought for.
    fn from(sampler: &Result<Sampler, &'static str>) -> Self {
        match sampler {
            Ok(_) => Self::Device,
            Err(reason) => Self::Host(reason),
        }
    }
}

/// How the device chooses tokens of `plan`, on an executor that chooses tokens if `samples`; or the name of what
/// only the host can do.
pub(super) fn sampler(plan: &Plan, samples: bool) -> Result<Sampler, &'static str> {
    let tactics = &plan.tactics;
    let reasons = [
        (!samples, "the executor chooses no tokens"),
        (tactics.beams.is_some(), "num_beams"),
        (tactics.answers > 1, "num_return_sequences"),
        (!tactics.use_cache, "use_cache"),
        (tactics.token_healing, "token_healing"),
        (tactics.output_scores, "output_scores"),
        (tactics.output_logits, "output_logits"),
        (tactics.top_logprobs.is_some(), "top_logprobs"),
        (tactics.lookup.is_some(), "prompt_lookup_num_tokens"),
    ];
    if let Some((_, reason)) = reasons.iter().find(|(applies, _)| *applies) {
        return Err(reason);
    }
    let mut sampler = Sampler {
        edits: Vec::new(),
        top_k: 0,
        removable: None,
        min_p: 0.0,
        seed: match plan.selection {
            Selection::Greedy => None,
            Selection::Multinomial { seed } => Some(seed),
        },
    };
    // Filters have one order on the device, after all edits.
    let mut reached = 0;
    let mut listed = 0;
    for stage in &plan.processors {
        let form = match &stage.work {
            Work::Processor(processor) => processor.device(),
            _ => None,
        };
        let place = match form.ok_or(stage.name())? {
            DeviceForm::Edit(edit) => {
                listed += edit.change.listed();
                sampler.edits.push(edit);
                0
            }
            DeviceForm::TopK(k) => {
                sampler.top_k = k;
                1
            }
            DeviceForm::Removable(share) => {
                sampler.removable = Some(share);
                2
            }
            DeviceForm::MinP(share) => {
                sampler.min_p = share;
                3
            }
        };
        if place < reached || listed > LISTED {
            return Err(stage.name());
        }
        reached = place;
    }
    Ok(sampler)
}
