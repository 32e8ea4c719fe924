//! Decant: language-model text generation inside a web page, on the user's own GPU.
//!
//! The modules in reading order. A request becomes tokens ([`tokenizer`]); a model file becomes an
//! index of weights ([`weights`]) and a description of a forward pass ([`model`], [`tape`], [`ops`]);
//! an executor ([`exec`]) runs it; the decoding loop ([`generation`]) chooses token after token.

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
