//! Tests that need no graphics adapter.

#[path = "../support/mod.rs"]
mod support;

mod gguf;
mod load;
mod model;
mod tidy;
mod typescript;
