//! One error type for the whole crate: opaque outside, precise inside.
//!
//! [`ErrorKind`] sorts errors by what the caller can do about them. The message says what was found,
//! what is allowed and, where there is one, the fix; it is lower case and has no final stop.

use std::fmt;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, with a message for a person and a kind for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What the caller can do about an [`Error`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option has a value that is not allowed, or its name is unknown: change the option.
    InvalidOption {
        /// The name of the option, as the caller wrote it.
        name: String,
    },
    /// The prompt cannot be used (it is empty, or holds ids outside the vocabulary): change the input.
    InvalidInput,
    /// A model file is damaged or lies about itself: get another file.
    InvalidWeights {
        /// The tensor or metadata key at fault.
        name: String,
    },
    /// The vocabulary cannot be used: get another file.
    InvalidTokenizer,
    /// A chat template refused the messages or cannot be rendered: change messages or template.
    InvalidTemplate,
    /// The file or option is sound, but this version or this machine has no support for it.
    Unsupported,
    /// The device has not enough memory: choose a smaller model or context.
    OutOfMemory,
    /// The device is gone: load the model again.
    DeviceLost,
    /// Prompt and answer do not fit the context: shorten the prompt or load with a longer context.
    ContextFull {
        /// The number of positions there are.
        limit: usize,
    },
    /// No token can be chosen: the scores hold NaN, or every token was removed.
    InvalidScores,
    /// The model was unloaded, or the generation was already consumed.
    Closed,
    /// A defect in this crate: report it.
    Internal,
}

impl ErrorKind {
    /// The name of this kind at the JavaScript face, `DecantError.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidOption { .. } => "invalid_option",
            Self::InvalidInput => "invalid_input",
            Self::InvalidWeights { .. } => "invalid_weights",
            Self::InvalidTokenizer => "invalid_tokenizer",
            Self::InvalidTemplate => "invalid_template",
            Self::Unsupported => "unsupported",
            Self::OutOfMemory => "out_of_memory",
            Self::DeviceLost => "device_lost",
            Self::ContextFull { .. } => "context_full",
            Self::InvalidScores => "invalid_scores",
            Self::Closed => "closed",
            Self::Internal => "internal",
        }
    }
}

impl Error {
    /// An error of `kind`; `message` says what was found and what is allowed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// An option's value is not allowed.
    pub fn option(name: impl Into<String>, message: impl fmt::Display) -> Self {
        let name = name.into();
        let message = format!("{name}: {message}");
        Self::new(ErrorKind::InvalidOption { name }, message)
    }

    /// A tensor or metadata key of a model file cannot be used.
    pub fn weights(name: impl Into<String>, message: impl fmt::Display) -> Self {
        let name = name.into();
        let message = format!("{name}: {message}");
        Self::new(ErrorKind::InvalidWeights { name }, message)
    }

    /// Something sound that this version or machine does not support.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A defect in this crate.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
