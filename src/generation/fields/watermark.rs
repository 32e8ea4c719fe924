//! The arguments of a watermark: Hugging Face's `WatermarkingConfig`.

use super::{
    super::value::Value,
    kind::{Range, integer},
};

/// How green tokens are chosen and how much they are favoured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watermark {
    /// Share of the vocabulary that is green, from 0 to 1.
    pub greenlist_ratio: f64,
    /// Added to the scores of green tokens.
    pub bias: f64,
    /// The secret that whoever looks for the watermark knows too.
    pub hashing_key: u64,
    /// What decides which tokens are green.
    pub seeding_scheme: Seeding,
    /// Tokens that decide, at least 1.
    pub context_width: usize,
}

/// What decides which tokens are green.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeding {
    /// The token before the next one.
    LeftHash,
    /// The tokens before and the next one itself.
    SelfHash,
}

impl Default for Watermark {
    fn default() -> Self {
        Self {
            greenlist_ratio: 0.25,
            bias: 2.0,
            hashing_key: 15_485_863,
            seeding_scheme: Seeding::LeftHash,
            context_width: 1,
        }
    }
}

impl Watermark {
    /// What a value may be, in words.
    pub(super) const ALLOWED: &'static str = "an object with greenlist_ratio (a number from 0 to 1), \
         bias (a finite number), hashing_key (an integer from 0 up), seeding_scheme (lefthash or selfhash) \
         and context_width (an integer from 1 up), each of which may be left out";

    /// The arguments in `value`; otherwise what was found in their place.
    pub(super) fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(entries) = value else {
            return Err(value.to_string());
        };
        let mut watermark = Self::default();
        for (key, value) in entries {
            if *value != Value::Null {
                let set = watermark.set(key, value);
                set.ok_or_else(|| format!("{key}: {value}"))?;
            }
        }
        Ok(watermark)
    }

    fn set(&mut self, key: &str, value: &Value) -> Option<()> {
        match (key, value) {
            ("greenlist_ratio", Value::Number(ratio)) => {
                self.greenlist_ratio = Some(*ratio).filter(|r| Range::UnitInterval.contains(*r))?;
            }
            ("bias", Value::Number(bias)) => {
                self.bias = Some(*bias).filter(|bias| bias.is_finite())?;
            }
            ("hashing_key", Value::Number(key)) => self.hashing_key = integer(*key)?,
            ("context_width", Value::Number(width)) => {
                let width = integer(*width).filter(|width| *width >= 1)?;
                self.context_width = usize::try_from(width).unwrap_or(usize::MAX);
            }
            ("seeding_scheme", Value::Text(scheme)) => {
                self.seeding_scheme = match scheme.as_str() {
                    "lefthash" => Seeding::LeftHash,
                    "selfhash" => Seeding::SelfHash,
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(())
    }

    /// The arguments as a caller writes them, all given.
    pub fn to_value(self) -> Value {
        let entries = [
            ("greenlist_ratio", Value::Number(self.greenlist_ratio)),
            ("bias", Value::Number(self.bias)),
            ("hashing_key", Value::Number(self.hashing_key as f64)),
            (
                "seeding_scheme",
                Value::Text(self.seeding_scheme.name().into()),
            ),
            ("context_width", Value::Number(self.context_width as f64)),
        ];
        Value::Object(entries.map(|(key, value)| (key.into(), value)).into())
    }
}

impl Seeding {
    fn name(self) -> &'static str {
        match self {
            Self::LeftHash => "lefthash",
            Self::SelfHash => "selfhash",
        }
    }
}
