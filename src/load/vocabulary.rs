//! The vocabulary in the keys of a GGUF header.

use crate::{
    error::{Error, Result},
    tokenizer::{TokenKind, Vocabulary},
    weights::Metadata,
};

/// The vocabulary in a header's keys.
pub fn vocabulary(metadata: &Metadata) -> Result<Vocabulary> {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let text = |name: &str| Ok(metadata.str(&key(name))?.map(str::to_owned));
    let list = |name: &str| Ok(metadata.strings(&key(name))?.unwrap_or_default().to_vec());
    let id = |name: &str| metadata.u32(&key(&format!("{name}_token_id")));
    let missing = |name: &str| Error::weights(key(name), "the key is missing");
    let kinds = metadata.integers(&key("token_type"))?.unwrap_or_default();
    let named = metadata
        .0
        .keys()
        .filter_map(|name| name.strip_prefix("tokenizer.chat_template."));
    let named = named.map(|name| {
        let template = metadata.str(&format!("tokenizer.chat_template.{name}"))?;
        Ok((name.to_owned(), template.unwrap_or_default().to_owned()))
    });
    // The files say nothing of it; llama.cpp knows them by their name, too.
    let phi3 = metadata.str("general.architecture")? == Some("phi3");
    Ok(Vocabulary {
        strip_after_special: phi3 && text("model")?.as_deref() == Some("llama"),
        model: text("model")?.ok_or_else(|| missing("model"))?,
        pre: text("pre")?.unwrap_or_else(|| "default".into()),
        tokens: list("tokens")?,
        kinds: kinds
            .iter()
            .map(|&code| TokenKind::from_code(code))
            .collect::<Result<_>>()?,
        merges: list("merges")?,
        scores: metadata.f32s(&key("scores"))?.unwrap_or_default(),
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        unknown: id("unknown")?,
        padding: id("padding")?,
        add_bos: metadata.bool(&key("add_bos_token"))?,
        add_eos: metadata.bool(&key("add_eos_token"))?,
        add_space_prefix: metadata.bool(&key("add_space_prefix"))?,
        chat_template: metadata.str("tokenizer.chat_template")?.map(str::to_owned),
        named_chat_templates: named.collect::<Result<_>>()?,
    })
}
