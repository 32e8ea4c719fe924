//! The decoding loop: a prompt and a configuration become tokens, one after another.
//!
//! The files in reading order. What a caller writes ([`value`], [`fields`]) is merged and checked
//! ([`config`]) and becomes a [`plan`] with its [`tactics`] and its `home`; what else a call is given
//! (`arguments`: [`inputs`], [`callbacks`]) becomes token ids, of which the last may be taken back (`healing`).
//! The loop ([`generate`]) is over prompts, each with what goes on from it (`group`, `sequence`). It lets
//! [`candidates`] be proposed, packs rows into forward passes (`batch`), stores keys and values in pages
//! ([`cache`]), turned by [`angles`], changes scores ([`processors`]), chooses ([`selection`]), ends sequences
//! ([`stopping`]), shows text ([`streamer`]) and gives it back ([`output`]). The [`engine`] is what all calls
//! share; [`stats`] counts.

pub mod angles;
mod arguments;
mod batch;
pub mod cache;
pub mod callbacks;
pub mod candidates;
pub mod config;
pub mod engine;
pub mod fields;
pub mod generate;
mod group;
mod healing;
mod home;
pub mod inputs;
pub mod output;
pub mod plan;
pub mod processors;
pub mod selection;
mod sequence;
pub mod stats;
pub mod stopping;
pub mod streamer;
pub mod tactics;
pub mod value;

pub use angles::LongAngles;
pub use arguments::Arguments;
pub use batch::{Capacity, TapeSize};
pub use candidates::Speculation;
pub use config::{
    EarlyStopping, GenerationConfig, ModelFacts, PlanSetting, Setting, Source, Warning,
};
pub use engine::{Engine, EngineParts, StopHandle};
pub use fields::FIELDS;
pub use generate::{Generation, RunAhead};
pub use home::DeviceForm;
pub use inputs::Prompt;
pub use output::{Event, Output, Pull};
pub use plan::{Home, Limit, Plan, StoppingRule, Strategy};
pub use processors::{Applied, Row, apply_processors};
pub use selection::Selection;
pub use sequence::TokenScore;
pub use stats::{Stats, Timings, Usage};
pub use stopping::{Criterion, StopReason};
pub use tactics::Tactics;
pub use value::Value;
