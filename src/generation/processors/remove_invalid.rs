//! Invalid scores: NaN becomes 0, +∞ and −∞ become the greatest and the least finite number.
//! Source: `InfNanRemoveLogitsProcessor`.

use super::{Args, Context, Processor, Scratch};

/// Makes every score finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoveInvalid;

impl Processor for RemoveInvalid {
    fn name(&self) -> &'static str {
        "remove_invalid_values"
    }

    fn args(&self) -> Args {
        vec![("remove_invalid_values", true.into())]
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        for score in scores {
            *score = match *score {
                score if score.is_nan() => 0.0,
                score => score.clamp(f32::MIN, f32::MAX),
            };
        }
    }
}
