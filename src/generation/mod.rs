//! The decoding loop: a prompt and a configuration become tokens, one after another.

pub mod cache;
pub mod config;
pub mod fields;
pub mod plan;
pub mod processors;
pub mod selection;
pub mod stopping;
pub mod value;

pub use config::{GenerationConfig, ModelFacts, Setting, Source, Warning};
pub use fields::FIELDS;
pub use plan::{Home, Plan, PlanSetting, StoppingRule, Strategy};
pub use processors::{Applied, apply_processors};
pub use stopping::{Criterion, StopReason};
pub use value::Value;
