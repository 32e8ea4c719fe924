//! What a model's tensors are called in Hugging Face checkpoints, and how they are stored there.
//!
//! Forward passes use the names of GGUF files. A family says with a table of [`Name`]s where each comes
//! from in a checkpoint; most take [`LLAMA`] as it is.

use super::ModelConfig;

/// Outputs of a layer, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outputs {
    /// The first.
    pub from: usize,
    /// How many.
    pub count: usize,
}

/// Says which outputs of a fused layer belong to one of those it is fused of, in order.
pub type ChooseOutputs = fn(&ModelConfig) -> Vec<Outputs>;

/// A tensor's names, without `.weight` or `.bias`, and how it is stored in a checkpoint.
#[derive(Clone, Copy)]
pub struct Name {
    /// In GGUF files; `*` stands for the number of the layer.
    pub gguf: &'static str,
    /// In checkpoints; a second `*` stands for the number of an expert or head, whose tensors are joined.
    pub checkpoint: &'static str,
    /// Which outputs of a layer that is fused with others are this one's; none if it is not fused.
    pub outputs: Option<ChooseOutputs>,
    /// Whether inputs are rows, and must become columns.
    pub transposed: bool,
    /// Whether 1 is added to each value.
    pub plus_one: bool,
    /// The layer that it is fused with others into in GGUF files, and which of its outputs are this one's;
    /// none if it is not fused there.
    pub fused: Option<(&'static str, ChooseOutputs)>,
}

/// A tensor that is stored alike in both formats.
pub const fn name(gguf: &'static str, checkpoint: &'static str) -> Name {
    Name {
        gguf,
        checkpoint,
        outputs: None,
        transposed: false,
        plus_one: false,
        fused: None,
    }
}

impl Name {
    /// Of the checkpoint's layer, only the outputs that `outputs` chooses, in that order.
    pub const fn outputs(mut self, outputs: ChooseOutputs) -> Self {
        self.outputs = Some(outputs);
        self
    }

    /// The checkpoint's matrix has a row for each input, as those of GPT-2.
    pub const fn transposed(mut self) -> Self {
        self.transposed = true;
        self
    }

    /// In GGUF files, the outputs that `outputs` chooses of the layer called `name`.
    pub const fn fused(mut self, name: &'static str, outputs: ChooseOutputs) -> Self {
        self.fused = Some((name, outputs));
        self
    }

    /// The checkpoint holds what is added to 1, as in Gemma's norms.
    pub const fn plus_one(mut self) -> Self {
        self.plus_one = true;
        self
    }
}

/// The names of the Llama family and of most others.
pub const LLAMA: &[Name] = &[
    name("token_embd", "model.embed_tokens"),
    name("output_norm", "model.norm"),
    name("output", "lm_head"),
    name("blk.*.attn_norm", "model.layers.*.input_layernorm"),
    name("blk.*.attn_q", "model.layers.*.self_attn.q_proj"),
    name("blk.*.attn_k", "model.layers.*.self_attn.k_proj"),
    name("blk.*.attn_v", "model.layers.*.self_attn.v_proj"),
    name("blk.*.attn_output", "model.layers.*.self_attn.o_proj"),
    name("blk.*.attn_q_norm", "model.layers.*.self_attn.q_norm"),
    name("blk.*.attn_k_norm", "model.layers.*.self_attn.k_norm"),
    name("blk.*.ffn_norm", "model.layers.*.post_attention_layernorm"),
    name("blk.*.ffn_gate", "model.layers.*.mlp.gate_proj"),
    name("blk.*.ffn_up", "model.layers.*.mlp.up_proj"),
    name("blk.*.ffn_down", "model.layers.*.mlp.down_proj"),
    name("blk.*.ffn_gate_inp", "model.layers.*.mlp.gate"),
    name(
        "blk.*.ffn_gate_exps",
        "model.layers.*.mlp.experts.*.gate_proj",
    ),
    name("blk.*.ffn_up_exps", "model.layers.*.mlp.experts.*.up_proj"),
    name(
        "blk.*.ffn_down_exps",
        "model.layers.*.mlp.experts.*.down_proj",
    ),
];

/// The end of the names of frequencies, which older checkpoints of most families hold and no model needs,
/// because they follow from the configuration.
pub const FREQUENCIES: &[&str] = &[".rotary_emb.inv_freq"];
