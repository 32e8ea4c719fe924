//! Stopping: after each token, an ordered list of criteria; the first that says stop names the reason.
//!
//! Hugging Face evaluates all criteria and reports no reason, so the order decides only the name. An
//! end token or stop string is a natural end and is named before a limit that is reached with it.

pub(super) mod stop_strings;

use std::fmt;

pub use stop_strings::StopStrings;

use super::value::Value;

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// An end token.
    Eos,
    /// `max_new_tokens` was reached.
    MaxNewTokens,
    /// `max_length` was reached.
    MaxLength,
    /// `max_time` had passed.
    MaxTime,
    /// A stop string was found.
    StopString,
    /// A criterion of the caller's.
    Custom,
    /// The caller stopped it.
    Aborted,
    /// The model's positions are used up.
    ContextFull,
}

impl StopReason {
    /// Every reason, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::Eos,
        Self::MaxNewTokens,
        Self::MaxLength,
        Self::MaxTime,
        Self::StopString,
        Self::Custom,
        Self::Aborted,
        Self::ContextFull,
    ];

    /// The name at the JavaScript face.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eos => "eos",
            Self::MaxNewTokens => "max_new_tokens",
            Self::MaxLength => "max_length",
            Self::MaxTime => "max_time",
            Self::StopString => "stop_string",
            Self::Custom => "custom",
            Self::Aborted => "aborted",
            Self::ContextFull => "context_full",
        }
    }

    /// Whether a limit cut the answer short.
    pub fn is_truncation(self) -> bool {
        matches!(
            self,
            Self::MaxNewTokens | Self::MaxLength | Self::MaxTime | Self::ContextFull
        )
    }
}

/// A sequence just after a token was appended to it.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The token.
    pub token: u32,
    /// Tokens of the answer, this one included.
    pub new_tokens: usize,
    /// Tokens of prompt and answer.
    pub length: usize,
    /// Whether the text contains a stop string that ends in this token's text.
    pub stop_string: bool,
    /// Seconds since the call began.
    pub seconds: f64,
    /// The first of the caller's criteria that ends the sequence here.
    pub function: Option<usize>,
}

/// A rule that ends sequences.
#[derive(Debug, Clone, PartialEq)]
pub enum Criterion {
    /// The token is one of these.
    Eos(Vec<u32>),
    /// The text contains one of these.
    StopStrings(Vec<String>),
    /// The answer has this many tokens.
    MaxNewTokens(usize),
    /// Prompt and answer have this many tokens.
    MaxLength(usize),
    /// Prompt and answer fill the context.
    Context(usize),
    /// More than this many seconds have passed.
    MaxTime(f64),
    /// The caller's criterion at this place of its list says so.
    Function(usize),
}

impl Criterion {
    /// The name in the plan: the field that asks for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Eos(_) => "eos_token_id",
            Self::StopStrings(_) => "stop_strings",
            Self::MaxNewTokens(_) => "max_new_tokens",
            Self::MaxLength(_) => "max_length",
            Self::Context(_) => "context_length",
            Self::MaxTime(_) => "max_time",
            Self::Function(_) => "stopping_criteria",
        }
    }

    /// What it was told.
    pub fn value(&self) -> Value {
        match self {
            Self::Eos(ids) => Value::List(ids.iter().map(|&id| Value::Number(id.into())).collect()),
            Self::StopStrings(texts) => {
                Value::List(texts.iter().cloned().map(Value::Text).collect())
            }
            Self::MaxNewTokens(count)
            | Self::MaxLength(count)
            | Self::Context(count)
            | Self::Function(count) => Value::Number(*count as f64),
            Self::MaxTime(seconds) => Value::Number(*seconds),
        }
    }

    /// Why the sequence ends here, if this rule ends it.
    pub fn stop(&self, progress: &Progress) -> Option<StopReason> {
        let (reached, reason) = match self {
            Self::Eos(ids) => (ids.contains(&progress.token), StopReason::Eos),
            Self::StopStrings(_) => (progress.stop_string, StopReason::StopString),
            Self::MaxNewTokens(count) => (progress.new_tokens >= *count, StopReason::MaxNewTokens),
            Self::MaxLength(count) => (progress.length >= *count, StopReason::MaxLength),
            Self::Context(count) => (progress.length >= *count, StopReason::ContextFull),
            Self::MaxTime(seconds) => (progress.seconds > *seconds, StopReason::MaxTime),
            Self::Function(index) => (progress.function == Some(*index), StopReason::Custom),
        };
        reached.then_some(reason)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
