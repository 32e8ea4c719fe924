//! Sequence bias: a number added to the score of a token that would complete a sequence. The bias of a
//! single token always applies, that of a longer sequence where its beginning is the end of the context.
//! Source: `SequenceBiasLogitsProcessor`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit, When},
    generation::{home::DeviceForm, value::Value},
};

/// Makes sequences of tokens more probable (bias above 0) or less (below 0).
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceBias {
    biases: Vec<(Vec<u32>, f64)>,
}

impl SequenceBias {
    /// `biases` of sequences, none of them empty; of equal sequences the last counts.
    pub fn new(biases: Vec<(Vec<u32>, f64)>) -> Self {
        let mut last: Vec<(Vec<u32>, f64)> = Vec::new();
        for (sequence, bias) in biases {
            match last.iter_mut().find(|(known, _)| *known == sequence) {
                Some(known) => known.1 = bias,
                None => last.push((sequence, bias)),
            }
        }
        Self { biases: last }
    }

    /// The biases as a caller writes them.
    pub fn pairs(&self) -> Value {
        let pair = |(ids, bias): &(Vec<u32>, f64)| {
            Value::List(vec![ids.as_slice().into(), (*bias).into()])
        };
        Value::List(self.biases.iter().map(pair).collect())
    }

    /// The sequences alone.
    pub fn sequences(&self) -> Value {
        let sequences = self.biases.iter().map(|(ids, _)| ids.as_slice().into());
        Value::List(sequences.collect())
    }
}

impl Processor for SequenceBias {
    fn name(&self) -> &'static str {
        "sequence_bias"
    }

    fn args(&self) -> Args {
        vec![("sequence_bias", self.pairs())]
    }

    fn device(&self) -> Option<DeviceForm> {
        let edit = |(sequence, bias): &(Vec<u32>, f64)| {
            let (&last, beginning) = sequence.split_last()?;
            Some(Edit {
                change: match *bias as f32 {
                    f32::NEG_INFINITY => Change::Remove(vec![last]),
                    bias => Change::Add(vec![(last, bias)]),
                },
                when: match beginning {
                    [] => When::Always,
                    ids => When::After(ids.to_vec()),
                },
            })
        };
        Some(DeviceForm::Edits(
            self.biases.iter().filter_map(edit).collect(),
        ))
    }

    fn process(&self, context: &Context, scores: &mut [f32], _: &mut Scratch) {
        for (sequence, bias) in &self.biases {
            let Some((&last, beginning)) = sequence.split_last() else {
                continue;
            };
            if let Some(score) = scores.get_mut(last as usize)
                && context.ids.ends_with(beginning)
            {
                *score += *bias as f32;
            }
        }
    }
}
