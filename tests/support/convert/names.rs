//! Names of architectures and tensors, from checkpoints to GGUF files.

/// What GGUF files call a model of this type.
pub fn architecture(model_type: &str) -> &'static str {
    match model_type {
        "llama" | "mistral" => "llama",
        "cohere" => "command-r",
        "gemma" => "gemma",
        "gemma2" => "gemma2",
        "gemma3_text" => "gemma3",
        "gpt2" => "gpt2",
        "gpt_neox" => "gptneox",
        "granite" => "granite",
        "lfm2" => "lfm2",
        "olmo2" => "olmo2",
        "olmoe" => "olmoe",
        "phi3" => "phi3",
        "qwen2" => "qwen2",
        "qwen3" => "qwen3",
        "qwen3_moe" => "qwen3moe",
        "smollm3" => "smollm3",
        "stablelm" => "stablelm",
        other => panic!("{other}"),
    }
}

/// What GGUF files call the tensor `name` of a model of type `kind`; of a tensor that is stacked with others,
/// the whole's name, `#`, and its number.
pub fn rename(kind: &str, name: &str) -> String {
    let post_attention = match kind {
        "olmo2" | "gemma2" | "gemma3_text" => "post_attention_norm",
        _ => "ffn_norm",
    };
    let parts = [
        ("gpt_neox.", ""),
        ("model.", ""),
        ("embed_tokens.", "token_embd."),
        ("embed_in.", "token_embd."),
        ("embedding_norm.", "token_embd_norm."),
        ("wte.", "token_embd."),
        ("wpe.", "position_embd."),
        ("final_layer_norm.", "output_norm."),
        ("ln_f.", "output_norm."),
        ("lm_head.", "output."),
        ("embed_out.", "output."),
        ("layers.", "blk."),
        ("h.", "blk."),
        ("self_attn.q_proj.", "attn_q."),
        ("self_attn.k_proj.", "attn_k."),
        ("self_attn.v_proj.", "attn_v."),
        ("self_attn.o_proj.", "attn_output."),
        ("self_attn.out_proj.", "attn_output."),
        ("self_attn.q_layernorm.", "attn_q_norm."),
        ("self_attn.k_layernorm.", "attn_k_norm."),
        ("conv.conv.", "shortconv.conv."),
        ("conv.in_proj.", "shortconv.in_proj."),
        ("conv.out_proj.", "shortconv.out_proj."),
        ("operator_norm.", "attn_norm."),
        ("feed_forward.w1.", "ffn_gate."),
        ("feed_forward.w2.", "ffn_down."),
        ("feed_forward.w3.", "ffn_up."),
        ("self_attn.q_norm.", "attn_q_norm."),
        ("self_attn.k_norm.", "attn_k_norm."),
        ("self_attn.qkv_proj.", "attn_qkv."),
        ("attn.c_attn.", "attn_qkv."),
        ("attn.c_proj.", "attn_output."),
        ("attention.query_key_value.", "attn_qkv."),
        ("attention.dense.", "attn_output."),
        ("mlp.gate_up_proj.", "ffn_up."),
        ("mlp.gate_proj.", "ffn_gate."),
        ("mlp.up_proj.", "ffn_up."),
        ("mlp.down_proj.", "ffn_down."),
        ("mlp.c_fc.", "ffn_up."),
        ("mlp.c_proj.", "ffn_down."),
        ("mlp.dense_h_to_4h.", "ffn_up."),
        ("mlp.dense_4h_to_h.", "ffn_down."),
        ("mlp.gate.", "ffn_gate_inp."),
        ("input_layernorm.", "attn_norm."),
        ("ln_1.", "attn_norm."),
        ("ln_2.", "ffn_norm."),
        ("pre_feedforward_layernorm.", "ffn_norm."),
        ("post_feedforward_layernorm.", "post_ffw_norm."),
    ];
    if let Some((stem, expert)) = name.split_once(".mlp.experts.") {
        let (number, rest) = expert.split_once('.').unwrap();
        let part = rest.strip_suffix("_proj.weight").unwrap();
        let stem = stem.replace("model.layers.", "blk.");
        return format!("{stem}.ffn_{part}_exps.weight#{number}");
    }
    if let Some((stem, head)) = name.split_once("_layernorm.norms.") {
        let number = head.strip_suffix(".weight").unwrap();
        let stem = stem.replace("model.layers.", "blk.");
        let stem = stem.replace("self_attn.", "attn_");
        return format!("{stem}_norm.weight#{number}");
    }
    let name = name.replace("post_attention_layernorm.", &format!("{post_attention}."));
    // Longer names come before those they end with.
    let name = match name.strip_prefix("model.norm.") {
        Some(rest) => format!("output_norm.{rest}"),
        None => name,
    };
    parts.iter().fold(name, |name, (from, to)| {
        let at = match from.contains('.') && from.len() < 4 {
            true => name.starts_with(from).then_some(0),
            false => name
                .find(from)
                .filter(|&at| at == 0 || name.as_bytes()[at - 1] == b'.'),
        };
        match at {
            Some(at) => format!("{}{to}{}", &name[..at], &name[at + from.len()..]),
            None => name,
        }
    })
}
