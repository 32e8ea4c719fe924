//! Routing: which experts a row goes to, and how much each counts.
//!
//! The experts with the highest scores are chosen, the lower number first among equals. An expert counts
//! by the softmax of its score over all experts, or, normalised, over the chosen ones. Source: Shazeer et
//! al. 2017, as in Hugging Face `OlmoeTopKRouter`.

use super::{BufferId, Rows, Shapes};
use crate::error::{Error, Result};

/// Chooses experts for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Tokens × experts.
    pub scores: BufferId,
    /// Whether the weights of the chosen experts add up to 1.
    pub normalise: bool,
    /// Tokens × twice the experts that are chosen: their numbers, then their weights.
    pub out: BufferId,
}

impl Route {
    pub(super) fn check(&self, shapes: &Shapes) -> Result<()> {
        let (experts, columns) = (
            shapes.spec(self.scores)?.columns,
            shapes.spec(self.out)?.columns,
        );
        if columns == 0 || !columns.is_multiple_of(2) || columns / 2 > experts {
            return Err(Error::internal(format!(
                "{columns} columns for numbers and weights of some of {experts} experts"
            )));
        }
        shapes.buffer(self.scores, Rows::Tokens, experts)?;
        shapes.buffer(self.out, Rows::Tokens, columns)
    }
}

/// `scores`: rows of `experts` values; `out`: as many rows of `chosen` numbers and `chosen` weights.
pub fn reference(scores: &[f32], experts: usize, chosen: usize, normalise: bool, out: &mut [f32]) {
    for (scores, out) in scores
        .chunks_exact(experts)
        .zip(out.chunks_exact_mut(2 * chosen))
    {
        let mut order: Vec<usize> = (0..experts).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let exp = |&expert: &usize| (f64::from(scores[expert]) - f64::from(scores[order[0]])).exp();
        let counted = if normalise { chosen } else { experts };
        let total: f64 = order[..counted].iter().map(exp).sum();
        for (i, expert) in order[..chosen].iter().enumerate() {
            out[i] = *expert as f32;
            out[chosen + i] = (exp(expert) / total) as f32;
        }
    }
}
