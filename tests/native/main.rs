//! Tests that need no graphics adapter.

#[path = "../support/mod.rs"]
mod support;

mod gguf;
mod gguf_damaged;
mod gguf_lies;
mod load;
mod metadata;
mod model;
mod real_header;
mod tensor;
mod tidy;
mod tokenizer_chat;
mod tokenizer_goldens;
mod typescript;
