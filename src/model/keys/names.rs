//! What GGUF calls a constant, and what `config.json` calls it.

/// Names of GGUF, and those of `config.json`: of transformers 5 first, then of version 4 and of single
/// families.
#[rustfmt::skip]
const NAMES: &[(&str, &[&str])] = &[
    ("block_count", &["num_hidden_layers", "n_layer"]),
    ("embedding_length", &["hidden_size", "n_embd"]),
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("context_length", &["max_position_embeddings", "n_positions"]),
    ("attention.head_count", &["num_attention_heads", "n_head"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.value_length", &["v_head_dim"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]),
    ("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon"]),
    ("attention.sliding_window", &["sliding_window"]),
    ("attention.sliding_window_pattern", &["sliding_window_pattern", "_sliding_window_pattern"]),
    ("attention.scale", &["attention_multiplier"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("embedding_scale", &["embedding_multiplier"]),
    ("residual_scale", &["residual_multiplier"]),
    ("shortconv.l_cache", &["conv_L_cache"]),
    ("tie_word_embeddings", &["tie_word_embeddings", "tie_embedding"]),
    ("activation", &["hidden_act", "activation_function"]),
    ("expert_count", &["num_experts", "num_local_experts"]),
    ("expert_used_count", &["num_experts_per_tok"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("expert_weights_norm", &["norm_topk_prob"]),
    ("rope.freq_base", &[
        "rope_parameters.rope_theta",
        "rope_parameters.full_attention.rope_theta",
        "rope_theta",
        "rotary_emb_base",
        "theta",
    ]),
    ("rope.freq_base_swa", &["rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"]),
    ("rope.partial_factor", &["rope_parameters.partial_rotary_factor", "partial_rotary_factor", "rotary_pct"]),
    ("rope.scaling.type", &[
        "rope_parameters.rope_type",
        "rope_parameters.type",
        "rope_parameters.full_attention.rope_type",
        "rope_scaling.rope_type",
        "rope_scaling.type",
    ]),
    ("rope.scaling_swa.type", &["rope_parameters.sliding_attention.rope_type"]),
    ("rope.scaling.factor", &[
        "rope_parameters.factor",
        "rope_parameters.full_attention.factor",
        "rope_scaling.factor",
    ]),
    ("rope.scaling.attn_factor", &["rope_parameters.attention_factor", "rope_scaling.attention_factor"]),
    ("rope.scaling.original_context_length", &[
        "rope_parameters.original_max_position_embeddings",
        "rope_scaling.original_max_position_embeddings",
        "original_max_position_embeddings",
    ]),
    ("rope.scaling.low_freq_factor", &["rope_parameters.low_freq_factor", "rope_scaling.low_freq_factor"]),
    ("rope.scaling.high_freq_factor", &["rope_parameters.high_freq_factor", "rope_scaling.high_freq_factor"]),
    ("rope.scaling.yarn_beta_fast", &["rope_parameters.beta_fast", "rope_scaling.beta_fast"]),
    ("rope.scaling.yarn_beta_slow", &["rope_parameters.beta_slow", "rope_scaling.beta_slow"]),
    ("rope.scaling.truncate", &["rope_parameters.truncate", "rope_scaling.truncate"]),
    ("rope.scaling.mscale", &["rope_parameters.mscale", "rope_scaling.mscale"]),
    ("rope.scaling.mscale_all_dim", &["rope_parameters.mscale_all_dim", "rope_scaling.mscale_all_dim"]),
    ("rope.scaling.short_factor", &["rope_parameters.short_factor", "rope_scaling.short_factor"]),
    ("rope.scaling.long_factor", &["rope_parameters.long_factor", "rope_scaling.long_factor"]),
];

/// The names in `config.json` of what GGUF calls `name`.
pub(super) fn spellings<'b>(name: &'b &'b str) -> &'b [&'b str] {
    let known = NAMES.iter().find(|(gguf, _)| gguf == name);
    known.map_or(std::slice::from_ref(name), |(_, keys)| keys)
}
