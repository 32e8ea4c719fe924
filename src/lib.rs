//! Decant: language-model text generation inside a web page, on the user's own GPU.
//!
//! The modules in reading order. A request becomes tokens ([`tokenizer`]); a model file becomes an
//! index of weights ([`weights`]) and a description of a forward pass ([`model`], [`tape`], [`ops`]);
//! an executor ([`exec`]) runs it; the decoding loop ([`generation`]) chooses token after token.
//!
//! What a configuration does to the scores of one token can be seen without a model:
//!
//! ```
//! use decant::generation::{Row, Value, apply_processors};
//!
//! let config: serde_json::Value = serde_json::from_str(
//!     r#"{ "do_sample": true, "temperature": 0.5, "top_k": 2 }"#,
//! )?;
//! let row = Row { ids: &[0], prompt_length: 1, ..Row::default() };
//! let steps = apply_processors(&[1.0, 3.0, 2.0], row, &Value::from(config))?;
//!
//! let names: Vec<_> = steps.iter().map(|step| step.name).collect();
//! assert_eq!(names, ["temperature", "top_k"]);
//! assert_eq!(steps[1].scores, [f32::NEG_INFINITY, 6.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod error;
pub mod exec;
pub mod generation;
pub mod load;
pub mod model;
pub mod ops;
pub mod tape;
pub mod tensor;
pub mod tokenizer;
pub mod weights;

#[cfg(target_arch = "wasm32")]
mod web;
