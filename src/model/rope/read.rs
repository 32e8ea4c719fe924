//! The scaling of a rope, as the files of either format say it.

use super::{Factors, Scaling};
use crate::{error::Result, model::Keys, weights::Format};

/// The tensor of GGUF files that holds factors for the frequencies of all ropes: the result of the scaling
/// of Llama 3.1 and later.
const FACTORS: &str = "rope_freqs.weight";

/// Those with the factors of short and long sequences.
const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";

/// The values of `rope.scaling.type`, for messages.
const TYPES: &str = "none, default, linear, llama3, yarn, longrope";

impl Scaling {
    /// `positions`: what the model is trained for.
    pub(super) fn read(keys: &Keys, positions: usize) -> Result<Self> {
        let name = "rope.scaling.type";
        // Files of Phi-3 had two other names for it.
        let older = keys.format() == Format::Checkpoint && keys.family().name == "phi3";
        match keys.text(name)? {
            Some("su" | "yarn") if older => Self::long(keys, positions),
            // GGUF files of Phi-3 show it by their tensors.
            None if keys.has_tensor(LONG) => Self::long(keys, positions),
            None => {
                let factor = gguf_factor(keys)?.filter(|&factor| factor != 1.0);
                Ok(factor.map_or_else(|| Self::none(keys), Self::Linear))
            }
            Some("none" | "default") => {
                // It says so of the factors beside it.
                gguf_factor(keys)?;
                Ok(Self::none(keys))
            }
            Some("linear") => Ok(Self::Linear(factor(keys)?)),
            Some("llama3") => Ok(Self::Llama3 {
                factor: factor(keys)?,
                low: required_divisor(keys, "rope.scaling.low_freq_factor")?,
                high: required_divisor(keys, "rope.scaling.high_freq_factor")?,
                original: original(keys, positions)?,
            }),
            Some("yarn") => Self::yarn(keys, positions),
            Some("longrope") => Self::long(keys, positions),
            Some(other) => Err(keys.unsupported(name, &format!("{other:?}"), TYPES)),
        }
    }

    fn none(keys: &Keys) -> Self {
        match keys.has_tensor(FACTORS) {
            true => Self::Factors(Factors::Tensor(FACTORS)),
            false => Self::None,
        }
    }

    fn yarn(keys: &Keys, positions: usize) -> Result<Self> {
        let factor = factor(keys)?;
        let growth = |by: f32| match factor > 1.0 {
            true => 0.1 * by * factor.ln() + 1.0,
            false => 1.0,
        };
        let turns = |name: &str, usual| Ok(keys.divisor(name)?.unwrap_or(usual));
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
        Ok(Self::Yarn {
            factor,
            fast: turns("rope.scaling.yarn_beta_fast", 32.0)?,
            slow: turns("rope.scaling.yarn_beta_slow", 1.0)?,
            original: original(keys, positions)?,
            attention,
            truncate: keys.flag("rope.scaling.truncate")?.unwrap_or(true),
        })
    }

    fn long(keys: &Keys, positions: usize) -> Result<Self> {
        let original = original(keys, positions)?;
        let factors = |name: &str, tensor| match keys.format() {
            Format::Gguf => Ok(Factors::Tensor(tensor)),
            Format::Checkpoint => {
                let values = keys.numbers(name)?;
                Ok(Factors::Values(values.ok_or_else(|| keys.missing(name))?))
            }
        };
        let growth = match keys.format() {
            Format::Gguf => None,
            Format::Checkpoint => keys.number("rope.scaling.factor")?,
        };
        let growth = growth.unwrap_or(positions as f32 / original.max(1) as f32);
        let attention = match keys.number("rope.scaling.attn_factor")? {
            Some(attention) => attention,
            None if growth <= 1.0 => 1.0,
            None => (1.0 + growth.ln() / (original as f32).ln()).sqrt(),
        };
        Ok(Self::Long {
            short: factors("rope.scaling.short_factor", SHORT)?,
            long: factors("rope.scaling.long_factor", LONG)?,
            original,
            attention,
        })
    }
}

fn original(keys: &Keys, positions: usize) -> Result<usize> {
    let original = keys.count("rope.scaling.original_context_length")?;
    Ok(original.unwrap_or(positions))
}

/// The factor of positions in a GGUF file, under its name or an older one.
fn gguf_factor(keys: &Keys) -> Result<Option<f32>> {
    if keys.format() == Format::Checkpoint {
        return Ok(None);
    }
    let older = keys.divisor("rope.scale_linear")?;
    Ok(keys.divisor("rope.scaling.factor")?.or(older))
}

fn factor(keys: &Keys) -> Result<f32> {
    required_divisor(keys, "rope.scaling.factor")
}

fn required_divisor(keys: &Keys, name: &str) -> Result<f32> {
    keys.divisor(name)?.ok_or_else(|| keys.missing(name))
}
