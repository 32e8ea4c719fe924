//! Rotary embedding: its constants in either format, and the table of angles.
//!
//! Source: Su et al. 2021; the scalings are those of Hugging Face `modeling_rope_utils`.

use super::Keys;
use crate::{
    error::{Error, Result},
    ops::Pairing,
    weights::Format,
};

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
        let factors = match &self.scaling {
            Scaling::Long { short, long, .. } => vec![("short", short), ("long", long)],
            _ => Vec::new(),
        };
        for (name, factors) in factors {
            if let Factors::Values(values) = factors {
                check_factors(
                    &keys.key(&format!("rope.scaling.{name}_factor")),
                    values,
                    self.dims,
                )?;
            }
        }
        Ok(())
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

    /// `sets · positions × dims`: for each position the cosines of its `dims / 2` angles, then their sines.
    /// `tensors`: the values of each of [`Self::tensors`].
    ///
    /// Angle `i` at position `p` is `p · frequencyᵢ`. Frequency and product are rounded to f32 as in
    /// Hugging Face transformers, so that angles agree at large positions, where one rounding of the
    /// product moves the cosine; cosine and sine are then taken in f64.
    ///
    /// # Errors
    /// A tensor holds another number of factors than there are pairs, or one that is not above 0.
    pub fn table(&self, positions: usize, tensors: &[Vec<f32>]) -> Result<Vec<f32>> {
        let mut tensors = self.tensors().into_iter().zip(tensors);
        let mut values = |factors: &Factors| match factors {
            Factors::Values(values) => Ok(values.clone()),
            Factors::Tensor(name) => {
                let values = tensors.next().map_or(&[][..], |(_, values)| values);
                check_factors(name, values, self.dims)?;
                Ok(values.to_vec())
            }
        };
        let (sets, scale) = match &self.scaling {
            Scaling::Long {
                short,
                long,
                attention,
                ..
            } => (
                vec![self.divided(&values(short)?), self.divided(&values(long)?)],
                *attention,
            ),
            Scaling::Factors(factors) => (vec![self.divided(&values(factors)?)], 1.0),
            Scaling::Yarn { attention, .. } => (vec![self.frequencies()], *attention),
            Scaling::None | Scaling::Linear(_) | Scaling::Llama3 { .. } => {
                (vec![self.frequencies()], 1.0)
            }
        };
        let mut table = Vec::with_capacity(sets.len() * positions * self.dims);
        for frequencies in sets {
            for position in 0..positions {
                let angles = frequencies
                    .iter()
                    .map(|frequency| f64::from(position as f32 * frequency));
                table.extend(angles.clone().map(|angle| angle.cos() as f32 * scale));
                table.extend(angles.map(|angle| angle.sin() as f32 * scale));
            }
        }
        Ok(table)
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
                let border = |turns: f32| {
                    let wave = original as f64 / (f64::from(turns) * 2.0 * std::f64::consts::PI);
                    self.dims as f64 * wave.ln() / (2.0 * f64::from(self.theta).ln())
                };
                let (mut low, mut high) = (border(fast), border(slow));
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

impl Scaling {
    fn read(keys: &Keys, positions: usize) -> Result<Self> {
        let kind = keys.text("rope.scaling.type")?;
        // Older GGUF files scale positions by a key without a type.
        let scale = keys.number("rope.scale_linear")?.filter(|&x| x != 1.0);
        match kind {
            None | Some("none" | "default") => Ok(scale.map_or(Self::None, Self::Linear)),
            Some("linear") => Ok(Self::Linear(factor(keys)?)),
            Some("llama3") => Ok(Self::Llama3 {
                factor: factor(keys)?,
                low: keys.required_number("rope.scaling.low_freq_factor")?,
                high: keys.required_number("rope.scaling.high_freq_factor")?,
                original: keys.required_count("rope.scaling.original_context_length")?,
            }),
            Some("yarn") => Self::yarn(keys, positions),
            // Phi-3's older spellings say the same.
            Some("longrope" | "su") => Self::long(keys, positions),
            Some(other) => Err(keys.unsupported(
                "rope.scaling.type",
                &format!("{other:?}"),
                "none, default, linear, llama3, yarn, longrope",
            )),
        }
    }

    fn yarn(keys: &Keys, positions: usize) -> Result<Self> {
        let factor = factor(keys)?;
        let growth = |by: f32| match factor > 1.0 {
            true => 0.1 * by * factor.ln() + 1.0,
            false => 1.0,
        };
        let number = |name: &str, default| Ok(keys.number(name)?.unwrap_or(default));
        let given = keys.number("rope.scaling.attn_factor")?;
        let growths = (
            keys.number("rope.scaling.mscale")?,
            keys.number("rope.scaling.mscale_all_dim")?,
        );
        let attention = match (keys.format(), given, growths) {
            // In GGUF files it is a further factor.
            (Format::Gguf, given, _) => given.unwrap_or(1.0) * growth(1.0),
            (Format::Checkpoint, Some(given), _) => given,
            (_, None, (Some(one), Some(all))) if one != 0.0 && all != 0.0 => {
                growth(one) / growth(all)
            }
            (_, None, _) => growth(1.0),
        };
        let original = keys.count("rope.scaling.original_context_length")?;
        Ok(Self::Yarn {
            factor,
            fast: number("rope.scaling.yarn_beta_fast", 32.0)?,
            slow: number("rope.scaling.yarn_beta_slow", 1.0)?,
            original: original.unwrap_or(positions),
            attention,
            truncate: keys.flag("rope.scaling.truncate")?.unwrap_or(true),
        })
    }

    fn long(keys: &Keys, positions: usize) -> Result<Self> {
        let name = "rope.scaling.original_context_length";
        let original = keys.required_count(name)?;
        let factors = |name: &str, tensor| match keys.format() {
            Format::Gguf => Ok(Factors::Tensor(tensor)),
            Format::Checkpoint => {
                let values = keys.numbers(name)?;
                Ok(Factors::Values(values.ok_or_else(|| {
                    Error::weights(keys.key(name), "the key is missing")
                })?))
            }
        };
        let growth = match keys.number("rope.scaling.factor")? {
            Some(factor) if keys.format() == Format::Checkpoint => factor,
            _ => positions as f32 / original.max(1) as f32,
        };
        let attention = match keys.number("rope.scaling.attn_factor")? {
            Some(attention) => attention,
            None if growth <= 1.0 => 1.0,
            None => (1.0 + growth.ln() / (original as f32).ln()).sqrt(),
        };
        Ok(Self::Long {
            short: factors("rope.scaling.short_factor", "rope_factors_short.weight")?,
            long: factors("rope.scaling.long_factor", "rope_factors_long.weight")?,
            original,
            attention,
        })
    }
}

fn factor(keys: &Keys) -> Result<f32> {
    let factor = keys.required_number("rope.scaling.factor")?;
    if factor > 0.0 {
        return Ok(factor);
    }
    let message = format!("{factor} is not above 0");
    Err(Error::weights(keys.key("rope.scaling.factor"), message))
}

fn check_factors(name: &str, factors: &[f32], dims: usize) -> Result<()> {
    if factors.len() != dims / 2 {
        let message = format!("{} factors for {} pairs", factors.len(), dims / 2);
        return Err(Error::weights(name, message));
    }
    match factors
        .iter()
        .find(|&&factor| factor.is_nan() || factor <= 0.0)
    {
        None => Ok(()),
        Some(factor) => Err(Error::weights(name, format!("{factor} is not above 0"))),
    }
}
