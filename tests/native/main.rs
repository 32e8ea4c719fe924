//! Tests that need no graphics adapter.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod assemble;
mod batch;
mod beam_search;
mod beams;
mod cache;
mod candidates;
mod candidates_sampling;
mod checkpoint;
mod checkpoint_refusals;
mod close;
mod config;
mod families;
mod generate;
mod gguf;
mod gguf_damaged;
mod gguf_lies;
mod golden_generate;
mod inputs;
mod lifecycle;
mod load;
mod metadata;
mod model;
mod options;
mod placement;
mod processors;
mod processors_extensions;
mod processors_golden;
mod real_header;
mod rope;
mod safetensors;
mod selection;
mod shaders;
mod stop_strings;
mod tensor;
mod tidy;
mod tokenizer_chat;
mod tokenizer_decoder;
mod tokenizer_goldens;
mod tokenizer_json;
mod tokenizer_vocabulary;
mod typescript;
