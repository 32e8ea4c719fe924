//! Every architecture, one file each.

mod cohere;
mod gemma;
mod gemma2;
mod gemma3;
mod gpt2;
mod gpt_neox;
mod granite;
mod lfm2;
mod llama;
mod mistral;
mod olmo2;
mod olmoe;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3_moe;
mod smollm3;
mod stablelm;

use super::Family;

/// Every architecture there is.
pub const FAMILIES: &[Family] = &[
    cohere::FAMILY,
    gemma::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    gpt2::FAMILY,
    gpt_neox::FAMILY,
    granite::FAMILY,
    lfm2::FAMILY,
    llama::FAMILY,
    mistral::FAMILY,
    olmo2::FAMILY,
    olmoe::FAMILY,
    phi3::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3_moe::FAMILY,
    smollm3::FAMILY,
    stablelm::FAMILY,
];
