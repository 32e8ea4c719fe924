//! What the values of a field may be, and the values that passed.

use super::{super::value::Value, watermark::Watermark};

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number from the first to [`LARGEST_INTEGER`].
    Integer(u64),
    /// One of these whole numbers.
    OneOf(&'static [u64]),
    /// A finite number in a range.
    Number(Range),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A truth value or one text.
    BooleanOr(&'static str),
    /// A token id.
    Token,
    /// A token id, or a list of them.
    Tokens,
    /// The same, and there is at least one.
    SomeTokens,
    /// A list of token ids.
    TokenList,
    /// A list of sequences of token ids, none of them empty.
    Sequences,
    /// A list of pairs of such a sequence and a finite number.
    Biases,
    /// An object with token ids as keys and numbers from −100 to 100 as values.
    TokenBiases,
    /// A pair of a whole number from 0 up and a finite number above 0.
    Decay,
    /// The arguments of a watermark.
    Watermark,
    /// A text that is not empty, or a list of them.
    Texts,
}

/// The numbers a field allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// All finite ones.
    Finite,
    /// Greater than 0.
    Positive,
    /// 0 or greater.
    NotNegative,
    /// From 0 to 1, both included.
    UnitInterval,
    /// From 0 to 1 without 0.
    AboveZero,
    /// From 0 to 1 without 1.
    BelowOne,
    /// From 0 to 1 without either.
    OpenUnit,
    /// From the first to the second, both included.
    Between(f64, f64),
}

/// A value that passed its field's check.
#[derive(Debug, Clone, PartialEq)]
pub enum Checked {
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(u64),
    /// A number.
    Number(f64),
    /// One of the texts that are allowed.
    Choice(&'static str),
    /// Token ids.
    Tokens(Vec<u32>),
    /// Sequences of token ids.
    Sequences(Vec<Vec<u32>>),
    /// Sequences of token ids, each with a number.
    Biases(Vec<(Vec<u32>, f64)>),
    /// Token ids, each with a number.
    TokenBiases(Vec<(u32, f64)>),
    /// Of [`Kind::Decay`].
    Decay(u64, f64),
    /// Of [`Kind::Watermark`].
    Watermark(Watermark),
    /// Texts.
    Texts(Vec<String>),
}

/// 2⁵³ − 1, the largest integer whose neighbours a double can tell apart.
pub const LARGEST_INTEGER: u64 = (1 << 53) - 1;

impl Kind {
    /// The value, if it is of this kind; otherwise what was found instead, in words.
    pub(super) fn check(self, value: &Value) -> Result<Checked, String> {
        if let Self::Watermark = self {
            return Watermark::parse(value).map(Checked::Watermark);
        }
        self.take(value).ok_or_else(|| value.to_string())
    }

    fn take(self, value: &Value) -> Option<Checked> {
        match (self, value) {
            (Self::Boolean | Self::BooleanOr(_), Value::Boolean(value)) => {
                Some(Checked::Boolean(*value))
            }
            (Self::Integer(least), Value::Number(number)) => {
                let integer = integer(*number).filter(|integer| *integer >= least);
                integer.map(Checked::Integer)
            }
            (Self::OneOf(allowed), Value::Number(number)) => {
                let integer = integer(*number).filter(|integer| allowed.contains(integer));
                integer.map(Checked::Integer)
            }
            (Self::Number(range), Value::Number(number)) => {
                range.contains(*number).then_some(Checked::Number(*number))
            }
            (Self::Choice(allowed), Value::Text(text)) => {
                let found = allowed.iter().find(|allowed| *allowed == text);
                found.map(|text| Checked::Choice(text))
            }
            (Self::BooleanOr(word), Value::Text(text)) => {
                (word == text).then_some(Checked::Choice(word))
            }
            (Self::Token | Self::Tokens | Self::SomeTokens, Value::Number(_)) => {
                token(value).map(|id| Checked::Tokens(vec![id]))
            }
            (Self::Tokens | Self::TokenList, Value::List(_)) => tokens(value).map(Checked::Tokens),
            (Self::SomeTokens, Value::List(_)) => sequence(value).map(Checked::Tokens),
            (Self::Sequences, Value::List(values)) if !values.is_empty() => {
                all(values, sequence).map(Checked::Sequences)
            }
            (Self::Biases, Value::List(values)) if !values.is_empty() => {
                all(values, bias).map(Checked::Biases)
            }
            (Self::TokenBiases, Value::Object(entries)) => {
                let biases = entries.iter().map(|(key, value)| token_bias(key, value));
                biases.collect::<Option<_>>().map(Checked::TokenBiases)
            }
            (Self::Decay, Value::List(pair)) => match pair.as_slice() {
                [Value::Number(start), Value::Number(factor)]
                    if Range::Positive.contains(*factor) =>
                {
                    integer(*start).map(|start| Checked::Decay(start, *factor))
                }
                _ => None,
            },
            (Self::Texts, Value::Text(_)) => text(value).map(|text| Checked::Texts(vec![text])),
            (Self::Texts, Value::List(values)) => all(values, text).map(Checked::Texts),
            _ => None,
        }
    }

    /// What is allowed, in words.
    pub fn allowed(self) -> String {
        let list = |words: &[&str]| words.join(", ");
        match self {
            Self::Boolean => "true or false".into(),
            Self::Integer(least) => format!("an integer from {least} to {LARGEST_INTEGER}"),
            Self::OneOf(allowed) => {
                let words: Vec<_> = allowed.iter().map(u64::to_string).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Number(range) => range.allowed(),
            Self::Choice(allowed) => format!("one of {}", list(allowed)),
            Self::BooleanOr(word) => format!("true, false or {word:?}"),
            Self::Token => "a token id (an integer from 0 up)".into(),
            Self::Tokens => "a token id (an integer from 0 up) or a list of token ids".into(),
            Self::SomeTokens => {
                "a token id (an integer from 0 up) or a list of at least one token id".into()
            }
            Self::TokenList => "a list of token ids (integers from 0 up)".into(),
            Self::Sequences => {
                "a list of at least one list of at least one token id (an integer from 0 up)".into()
            }
            Self::Biases => {
                "a list of at least one pair [list of at least one token id, finite number]".into()
            }
            Self::TokenBiases => {
                "an object with token ids as keys and numbers from -100 to 100 as values".into()
            }
            Self::Decay => "a pair [integer from 0 up, finite number above 0]".into(),
            Self::Watermark => Watermark::ALLOWED.into(),
            Self::Texts => "a text that is not empty, or a list of such texts".into(),
        }
    }
}

impl Range {
    /// Whether the range holds `number`; no range holds NaN or an infinity.
    pub(super) fn contains(self, number: f64) -> bool {
        number.is_finite()
            && match self {
                Self::Finite => true,
                Self::Positive => number > 0.0,
                Self::NotNegative => number >= 0.0,
                Self::UnitInterval => (0.0..=1.0).contains(&number),
                Self::AboveZero => number > 0.0 && number <= 1.0,
                Self::BelowOne => (0.0..1.0).contains(&number),
                Self::OpenUnit => number > 0.0 && number < 1.0,
                Self::Between(least, most) => (least..=most).contains(&number),
            }
    }

    fn allowed(self) -> String {
        match self {
            Self::Finite => "a finite number".into(),
            Self::Positive => "a finite number above 0".into(),
            Self::NotNegative => "a finite number from 0 up".into(),
            Self::UnitInterval => "a number from 0 to 1".into(),
            Self::AboveZero => "a number above 0 and at most 1".into(),
            Self::BelowOne => "a number from 0 up and below 1".into(),
            Self::OpenUnit => "a number above 0 and below 1".into(),
            Self::Between(least, most) => format!("a number from {least} to {most}"),
        }
    }
}

/// `number` as a whole number that a double holds exactly.
pub(super) fn integer(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..=LARGEST_INTEGER as f64).contains(&number))
        .then_some(number as u64)
}

fn all<T>(values: &[Value], take: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    values.iter().map(take).collect()
}

fn token(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => u32::try_from(integer(*number)?).ok(),
        _ => None,
    }
}

fn tokens(value: &Value) -> Option<Vec<u32>> {
    match value {
        Value::List(values) => all(values, token),
        _ => None,
    }
}

fn sequence(value: &Value) -> Option<Vec<u32>> {
    tokens(value).filter(|tokens| !tokens.is_empty())
}

fn bias(value: &Value) -> Option<(Vec<u32>, f64)> {
    match value {
        Value::List(pair) => match pair.as_slice() {
            [ids, Value::Number(bias)] if bias.is_finite() => Some((sequence(ids)?, *bias)),
            _ => None,
        },
        _ => None,
    }
}

fn token_bias(key: &str, value: &Value) -> Option<(u32, f64)> {
    match value {
        Value::Number(bias) if Range::Between(-100.0, 100.0).contains(*bias) => {
            // Only the plain spelling, so that no two keys are one id.
            let id = key.parse::<u32>().ok().filter(|id| id.to_string() == key)?;
            Some((id, *bias))
        }
        _ => None,
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}
