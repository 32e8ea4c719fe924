//! Classifier-free guidance: `u + scale · (c − u)` on log-probabilities, where c are the scores after the
//! prompt and u those after the negative prompt. Source: Sanchez et al. 2023;
//! `UnbatchedClassifierFreeGuidanceLogitsProcessor`.

use super::{Args, Context, Processor, Scratch, log_softmax};

/// Moves the scores away from those of the negative prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guidance {
    scale: f64,
}

impl Guidance {
    /// The name in the plan; a chain with this stage needs [`Context::unconditional`].
    pub const NAME: &'static str = "guidance_scale";

    /// `scale` 1 changes nothing, above 1 guides, below 1 loosens.
    pub fn new(scale: f64) -> Self {
        Self { scale }
    }
}

impl Processor for Guidance {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn args(&self) -> Args {
        vec![("guidance_scale", self.scale.into())]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        // Whoever runs a chain has checked that there are scores to guide away from.
        let Some(unconditional) = context.unconditional else {
            return;
        };
        scratch.values.clear();
        scratch.values.extend_from_slice(unconditional);
        log_softmax(&mut scratch.values);
        log_softmax(scores);
        let scale = self.scale as f32;
        for (score, unconditional) in scores.iter_mut().zip(&scratch.values) {
            *score = scale * (*score - unconditional) + unconditional;
        }
    }
}
