//! Watermark: a part of the vocabulary, chosen by the tokens before and a secret key, is favoured by a bias,
//! which whoever has the key can recognise. Source: Kirchenbauer et al. 2023, "A Watermark for Large
//! Language Models"; `WatermarkLogitsProcessor`.

use super::{Args, Context, Processor, Scratch, best_first, mt19937::Mt19937};
use crate::generation::fields::{Seeding, Watermark as Arguments};

/// Favours the green tokens of each step.
#[derive(Debug, Clone)]
pub struct Watermark {
    arguments: Arguments,
    /// A permutation that hashes ids; empty where the scheme needs none.
    table: Vec<u32>,
}

/// Ids that the table tells apart.
const TABLE: usize = 1_000_003;
/// Candidates that are asked whether they make themselves green.
const CANDIDATES: usize = 40;

impl Watermark {
    /// A watermark by `arguments`.
    pub fn new(arguments: Arguments) -> Self {
        let mut table = Vec::new();
        if arguments.seeding_scheme == Seeding::SelfHash {
            let mut generator = Mt19937::new(arguments.hashing_key as u32);
            generator.permutation(TABLE, TABLE, &mut table);
        }
        Self { arguments, table }
    }

    /// Puts the green tokens after `window`, the last tokens, into `green`.
    fn green(&self, window: &[u32], vocabulary: usize, green: &mut Vec<u32>) {
        let count = (vocabulary as f64 * self.arguments.greenlist_ratio) as usize;
        Mt19937::new(self.seed(window)).permutation(vocabulary, count, green);
    }

    /// The generator takes the lower half of a seed that is reduced modulo 2⁶⁴ − 1.
    fn seed(&self, window: &[u32]) -> u32 {
        let last = window.last().copied().unwrap_or(0);
        let key = self.arguments.hashing_key;
        let seed = match self.arguments.seeding_scheme {
            Seeding::LeftHash => i128::from(key) * i128::from(last),
            Seeding::SelfHash => {
                let hash = |id: u32| i64::from(self.table[id as usize % TABLE]) + 1;
                // PyTorch multiplies in 64 bits, which wrap, and takes the least product.
                let product = |id: &u32| {
                    let hashed = (key as i64).wrapping_mul(hash(*id));
                    hashed.wrapping_mul(hash(last))
                };
                window.iter().map(product).min().unwrap_or(0).into()
            }
        };
        seed.rem_euclid(i128::from(u64::MAX)) as u32
    }

    /// Leaves in `scratch.order` those of the best tokens that are green if they are chosen.
    fn self_green(&self, ids: &[u32], scores: &[f32], scratch: &mut Scratch) {
        best_first(scores, CANDIDATES, &mut scratch.order);
        let mut window = ids[ids.len() - (self.arguments.context_width - 1)..].to_vec();
        let mut green = Vec::new();
        scratch.order.retain(|candidate| {
            window.push(*candidate);
            self.green(&window, scores.len(), &mut green);
            window.pop();
            green.contains(candidate)
        });
    }
}

impl Processor for Watermark {
    fn name(&self) -> &'static str {
        "watermarking_config"
    }

    fn args(&self) -> Args {
        vec![("watermarking_config", self.arguments.to_value())]
    }

    fn process(&self, context: &Context, scores: &mut [f32], scratch: &mut Scratch) {
        let width = self.arguments.context_width;
        if context.ids.len() < width {
            return;
        }
        match self.arguments.seeding_scheme {
            Seeding::LeftHash => {
                let window = &context.ids[context.ids.len() - width..];
                self.green(window, scores.len(), &mut scratch.order);
            }
            Seeding::SelfHash => self.self_green(context.ids, scores, scratch),
        }
        for id in &scratch.order {
            scores[*id as usize] += self.arguments.bias as f32;
        }
    }
}
