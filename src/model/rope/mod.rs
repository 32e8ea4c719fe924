//! Rotary embedding: its constants in either format, and the table of angles.
//!
//! Source: Su et al. 2021; the scalings are those of Hugging Face `modeling_rope_utils`.

mod read;

use super::Keys;
use crate::{
    error::{Error, Result},
    ops::Pairing,
};

/// About how many values of a table are made together.
const PIECE: usize = 1 << 16;

/// Rotary embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f32,
    /// Values of a head that are rotated; even.
    pub dims: usize,
    /// Which values form a pair.
    pub pairing: Pairing,
    /// How frequencies are changed for contexts longer than those of training.
    pub scaling: Scaling,
}

/// How frequencies are changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// Positions are divided by the factor.
    Linear(f32),
    /// Low frequencies are divided by `factor`, high ones stay, those between are blended: Llama 3.1.
    Llama3 {
        /// What low frequencies are divided by.
        factor: f32,
        /// Waves longer than `original / low` are low frequencies.
        low: f32,
        /// Waves shorter than `original / high` are high frequencies.
        high: f32,
        /// Positions of the training before.
        original: usize,
    },
    /// As `Llama3` by turns within the original context, and values are scaled. Source: Peng et al. 2023.
    Yarn {
        /// What low frequencies are divided by.
        factor: f32,
        /// Turns from which on frequencies stay.
        fast: f32,
        /// Turns below which they are divided by `factor`.
        slow: f32,
        /// Positions of the training before.
        original: usize,
        /// What cosines and sines are multiplied by.
        attention: f32,
        /// Whether the borders are rounded to whole pairs.
        truncate: bool,
    },
    /// Each frequency is divided by a factor of its own. Sequences up to `original` positions take `short`
    /// and longer ones `long`, for all their positions. Source: Ding et al. 2024, and Phi-3.
    Long {
        /// Those of short sequences.
        short: Factors,
        /// Those of long sequences.
        long: Factors,
        /// The most positions of a short sequence.
        original: usize,
        /// What cosines and sines are multiplied by.
        attention: f32,
    },
    /// Each frequency is divided by a factor of its own: Llama 3.1 in GGUF files.
    Factors(Factors),
}

/// A factor for each pair of a head.
#[derive(Debug, Clone, PartialEq)]
pub enum Factors {
    /// These.
    Values(Vec<f32>),
    /// Those of a tensor of the file.
    Tensor(&'static str),
}

impl Rope {
    /// The constants of a model whose heads have `head_dim` values. `positions`: what it is trained for.
    pub fn read(keys: &Keys, head_dim: usize, positions: usize, pairing: Pairing) -> Result<Self> {
        let partial = keys.number("rope.partial_factor")?;
        let dims = match (keys.count("rope.dimension_count")?, partial) {
            (Some(dims), _) => dims,
            (None, Some(factor)) => (head_dim as f32 * factor) as usize,
            (None, None) => head_dim,
        };
        Ok(Self {
            theta: keys.number("rope.freq_base")?.unwrap_or(10_000.0),
            dims,
            pairing,
            scaling: Scaling::read(keys, positions)?,
        })
    }

    /// Fails, naming the key, if heads of `head_dim` values cannot be rotated so.
    pub(super) fn check(&self, keys: &Keys, head_dim: usize) -> Result<()> {
        if self.dims > head_dim || !self.dims.is_multiple_of(2) || self.dims == 0 {
            let message = format!("{} is not an even number up to {head_dim}", self.dims);
            return Err(Error::weights(keys.key("rope.dimension_count"), message));
        }
        if self.theta <= 0.0 {
            let message = format!("{} is not above 0", self.theta);
            return Err(Error::weights(keys.key("rope.freq_base"), message));
        }
        if let Scaling::Long { short, long, .. } = &self.scaling {
            for (name, factors) in [("short", short), ("long", long)] {
                if let Factors::Values(values) = factors {
                    let key = keys.key(&format!("rope.scaling.{name}_factor"));
                    check_factors(&key, values, self.dims)?;
                }
            }
        }
        let mut made = self.frequencies().into_iter().chain([self.attention()]);
        let sound = match self.scaling {
            Scaling::Yarn {
                fast,
                slow,
                original,
                ..
            } => self
                .borders(fast, slow, original)
                .iter()
                .all(|x| x.is_finite()),
            _ => true,
        };
        if sound && made.all(|x| x.is_finite() && x > 0.0) {
            return Ok(());
        }
        let message = "its constants lead to angles that are not finite and above 0";
        Err(Error::weights(keys.key("rope.scaling.type"), message))
    }

    /// Positions after which a sequence takes other angles, all of its positions; never if `None`.
    pub fn original(&self) -> Option<usize> {
        match self.scaling {
            Scaling::Long { original, .. } => Some(original),
            _ => None,
        }
    }

    /// Sets of angles: two where long sequences take others.
    pub fn sets(&self) -> usize {
        if self.original().is_some() { 2 } else { 1 }
    }

    /// The tensors that hold factors.
    pub fn tensors(&self) -> Vec<&'static str> {
        let factors = match &self.scaling {
            Scaling::Long { short, long, .. } => vec![short, long],
            Scaling::Factors(factors) => vec![factors],
            _ => Vec::new(),
        };
        let tensors = factors.into_iter().filter_map(|factors| match factors {
            Factors::Tensor(name) => Some(*name),
            Factors::Values(_) => None,
        });
        tensors.collect()
    }

    /// `sets · positions × dims`, row after row, of which `write` gets the number of the first value and
    /// some whole rows: for each position the cosines of its `dims / 2` angles, then their sines.
    /// `tensors`: the values of each of [`Self::tensors`].
    ///
    /// Angle `i` at position `p` is `p · frequencyᵢ`. Frequency and product are rounded to f32 as in
    /// Hugging Face transformers, so that angles agree at large positions, where one rounding of the
    /// product moves the cosine; cosine and sine are then taken in f64.
    ///
    /// # Errors
    /// A tensor holds another number of factors than there are pairs, or one that is not above 0; those
    /// of `write`.
    pub fn table(
        &self,
        positions: usize,
        tensors: &[Vec<f32>],
        write: &mut dyn FnMut(usize, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let scale = self.attention();
        let rows = (PIECE / self.dims).max(1);
        for (set, frequencies) in self.sets_of_frequencies(tensors)?.iter().enumerate() {
            for first in (0..positions).step_by(rows) {
                let mut piece = Vec::with_capacity(rows * self.dims);
                for position in first..(first + rows).min(positions) {
                    let angles = frequencies
                        .iter()
                        .map(|frequency| f64::from(position as f32 * frequency));
                    piece.extend(angles.clone().map(|angle| angle.cos() as f32 * scale));
                    piece.extend(angles.map(|angle| angle.sin() as f32 * scale));
                }
                write((set * positions + first) * self.dims, &piece)?;
            }
        }
        Ok(())
    }

    fn sets_of_frequencies(&self, tensors: &[Vec<f32>]) -> Result<Vec<Vec<f32>>> {
        let mut tensors = self.tensors().into_iter().zip(tensors);
        let mut divided = |factors: &Factors| match factors {
            Factors::Values(values) => Ok(self.divided(values)),
            Factors::Tensor(name) => {
                let values = tensors.next().map_or(&[][..], |(_, values)| values);
                check_factors(name, values, self.dims)?;
                Ok(self.divided(values))
            }
        };
        match &self.scaling {
            Scaling::Long { short, long, .. } => Ok(vec![divided(short)?, divided(long)?]),
            Scaling::Factors(factors) => Ok(vec![divided(factors)?]),
            _ => Ok(vec![self.frequencies()]),
        }
    }

    /// What cosines and sines are multiplied by.
    fn attention(&self) -> f32 {
        match self.scaling {
            Scaling::Yarn { attention, .. } | Scaling::Long { attention, .. } => attention,
            _ => 1.0,
        }
    }

    /// The frequency of each pair.
    pub fn frequencies(&self) -> Vec<f32> {
        let plain = (0..self.dims / 2).map(|i| (1.0 / self.wave(i)) as f32);
        match self.scaling {
            Scaling::Linear(factor) => plain.map(|frequency| frequency / factor).collect(),
            Scaling::Llama3 {
                factor,
                low,
                high,
                original,
            } => {
                let blend = |frequency: f32| {
                    let turns = original as f32 * frequency / (2.0 * std::f32::consts::PI);
                    let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                };
                plain.map(blend).collect()
            }
            Scaling::Yarn {
                factor,
                fast,
                slow,
                original,
                truncate,
                ..
            } => {
                let [mut low, mut high] = self.borders(fast, slow, original);
                if truncate {
                    (low, high) = (low.floor(), high.ceil());
                }
                let (low, mut high) = (low.max(0.0), high.min(self.dims as f64 - 1.0));
                if low == high {
                    high += 0.001;
                }
                let blend = |(i, frequency): (usize, f32)| {
                    let slowness = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0) as f32;
                    frequency / factor * slowness + frequency * (1.0 - slowness)
                };
                plain.enumerate().map(blend).collect()
            }
            _ => plain.collect(),
        }
    }

    /// The pairs that make `fast` and `slow` turns within `original` positions.
    fn borders(&self, fast: f32, slow: f32, original: usize) -> [f64; 2] {
        [fast, slow].map(|turns| {
            let wave = original as f64 / (f64::from(turns) * 2.0 * std::f64::consts::PI);
            self.dims as f64 * wave.ln() / (2.0 * f64::from(self.theta).ln())
        })
    }

    fn divided(&self, factors: &[f32]) -> Vec<f32> {
        let divided =
            |(i, factor): (usize, &f32)| (1.0 / (f64::from(*factor) * self.wave(i))) as f32;
        factors.iter().enumerate().map(divided).collect()
    }

    /// The reciprocal of an unscaled frequency.
    fn wave(&self, pair: usize) -> f64 {
        f64::from(self.theta).powf(2.0 * pair as f64 / self.dims as f64)
    }
}

fn check_factors(name: &str, factors: &[f32], dims: usize) -> Result<()> {
    if factors.len() != dims / 2 {
        let message = format!("{} factors for {} pairs", factors.len(), dims / 2);
        return Err(Error::weights(name, message));
    }
    match factors
        .iter()
        .find(|&&factor| !(factor.is_finite() && factor > 0.0))
    {
        None => Ok(()),
        Some(factor) => Err(Error::weights(
            name,
            format!("{factor} is not finite and above 0"),
        )),
    }
}
