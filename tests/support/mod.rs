//! What tests share. Each test binary uses its own part.
#![allow(dead_code, reason = "no test binary uses everything")]

pub mod attention;
pub mod branches;
pub mod checkpoint;
pub mod close;
pub mod convert;
pub mod corpus;
pub mod crew;
pub mod fake;
pub mod generate;
pub mod gguf;
pub mod golden;
pub mod golden_engine;
pub mod loops;
pub mod model;
pub mod mutate;
pub mod quantise;
pub mod random;
pub mod read;
pub mod safetensors;
pub mod scene;
pub mod short_conv;
pub mod tokenizers;
pub mod transformer;
pub mod weights;
