//! Where a call's tokens are chosen: on the device, where its options allow that, or on the host.
//!
//! Both homes have one meaning. The device chooses where the scores are and goes on by itself; the host
//! sees every step, as whatever has no form on the device needs.

use super::{
    plan::{Home, Plan},
    processors::Work,
    selection::Selection,
};
use crate::exec::sample::{EDIT_WORDS, Edit, MOST_BEST, Sampler};

/// The form of a processor on the device.
#[derive(Debug, Clone, PartialEq)]
pub enum DeviceForm {
    /// Changes of scores that depend on a token and what occurred, in order.
    Edits(Vec<Edit>),
    /// Keeps as many of the best tokens.
    TopK(usize),
    /// Removes tokens of this probability from below.
    Removable(f32),
    /// Keeps tokens of at least this share of the best one's probability.
    MinP(f32),
    /// Keeps the most typical tokens of this probability.
    Typical(f32),
    /// Keeps tokens of this probability.
    Epsilon(f32),
    /// The same where the bound follows the entropy.
    Eta(f32),
    /// Adds the same to all scores, which changes no choice and no probability.
    Shift,
}

/// The least probability to remove that the device can tell from the rounding of its weights, 2⁻³² of the
/// best token's for each token at most.
pub(super) const LEAST_REMOVED: f64 = 1e-4;

impl DeviceForm {
    /// A single change of scores.
    pub fn edit(edit: Edit) -> Self {
        Self::Edits(vec![edit])
    }
}

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
    let beams = tactics.beams;
    let scored = |top| beams.is_some() || top > MOST_BEST;
    let reasons = [
        (!samples, "the executor chooses no tokens"),
        (beams.is_some_and(|b| b.considered > MOST_BEST), "num_beams"),
        (!tactics.use_cache, "use_cache"),
        (tactics.token_healing, "token_healing"),
        (tactics.output_scores, "output_scores"),
        (tactics.output_logits, "output_logits"),
        (tactics.top_logprobs.is_some_and(scored), "top_logprobs"),
        (tactics.lookup.is_some(), "prompt_lookup_num_tokens"),
    ];
    if let Some((_, reason)) = reasons.iter().find(|(applies, _)| *applies) {
        return Err(reason);
    }
    let mut sampler = Sampler {
        seed: match plan.selection {
            Selection::Greedy => None,
            Selection::Multinomial { seed } => Some(seed),
        },
        best: match (tactics.beams, tactics.top_logprobs) {
            (Some(settings), _) => settings.considered,
            // Where only the token's own is wanted, that is reported beside the best one.
            (None, Some(top)) => top.max(1),
            (None, None) => 0,
        },
        search: tactics.beams.is_some(),
        ..Sampler::default()
    };
    // Filters have one order on the device, after all edits.
    let mut reached = 0;
    let mut words = 0;
    for stage in &plan.processors {
        let form = match &stage.work {
            Work::Processor(processor) => processor.device(),
            _ => None,
        };
        let place = match form.ok_or(stage.name())? {
            DeviceForm::Edits(edits) => {
                words += edits.iter().map(Edit::words).sum::<usize>();
                sampler.edits.extend(edits);
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
            DeviceForm::Typical(share) => {
                sampler.typical = share;
                4
            }
            // What is typical may be without the best token, which the last two rely on.
            DeviceForm::Epsilon(_) | DeviceForm::Eta(_) if sampler.typical > 0.0 => {
                return Err(stage.name());
            }
            DeviceForm::Epsilon(share) => {
                sampler.epsilon = share;
                5
            }
            DeviceForm::Eta(share) => {
                sampler.eta = share;
                6
            }
            // The scores of beams are compared with those of others.
            DeviceForm::Shift if sampler.search => return Err(stage.name()),
            DeviceForm::Shift => 7,
        };
        if place < reached || words > EDIT_WORDS {
            return Err(stage.name());
        }
        reached = place;
    }
    Ok(sampler)
}
