//! SmolLM 3: Llama with some layers that do not rotate their heads.
//!
//! Source: Bakouch et al. 2025, and Hugging Face `SmolLM3ForCausalLM`.

use super::{llama, qwen2};
use crate::{
    error::{Error, Result},
    model::{Assumed, Family, Keys, ModelConfig, names},
};

pub const FAMILY: Family = Family {
    name: "smollm3",
    architectures: &["smollm3"],
    model_types: &["smollm3"],
    names: names::LLAMA,
    needless: names::FREQUENCIES,
    defaults: &[
        ("rope.freq_base", Assumed::Number(2_000_000.0)),
        ("attention.head_count_kv", Assumed::Number(4.0)),
        ("tie_word_embeddings", Assumed::Flag(true)),
    ],
    config,
    forward: llama::forward,
};

fn config(keys: &Keys) -> Result<ModelConfig> {
    let mut config = ModelConfig::read(keys, "smollm3", false, Some(llama::pairing(keys)))?;
    let name = "no_rope_layers";
    let (listed, every) = (
        keys.integers(name)?,
        keys.step("no_rope_layer_interval", 4)?,
    );
    if let Some(listed) = listed.filter(|listed| listed.len() < config.layers.len()) {
        let message = format!("{} flags for {} layers", listed.len(), config.layers.len());
        return Err(Error::weights(keys.key(name), message));
    }
    // Against its name, the list says which layers rotate.
    let rotates = |i: usize| match listed {
        Some(listed) => listed[i] != 0,
        None => !(i + 1).is_multiple_of(every),
    };
    for (i, layer) in config.layers.iter_mut().enumerate() {
        layer.rope = rotates(i).then_some(0);
    }
    qwen2::windows(keys, &mut config, |i| !rotates(i))?;
    Ok(config)
}
