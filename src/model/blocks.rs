//! The parts that most forward passes are made of, by the names and constants of one layer.

use super::Builder;
use crate::{
    error::{Error, Result},
    model::ModelConfig,
    ops::{Attention, BufferId, Experts, Lookup, Op, RotaryStore, Rotation, Route, ShortConv},
};

/// The name of a tensor of one layer, without `.weight`.
pub fn name(layer: usize, part: &str) -> String {
    format!("blk.{layer}.{part}")
}

impl ModelConfig {
    /// Layers of attention; the others convolve.
    pub fn attention_layers(&self) -> usize {
        let layers = self.layers.iter();
        layers.filter(|layer| !layer.convolves).count()
    }

    /// The place of a layer in the cache, among those of its kind.
    fn place(&self, layer: usize) -> usize {
        let kind = self.layers[layer].convolves;
        let before = self.layers[..layer].iter();
        before.filter(|layer| layer.convolves == kind).count()
    }
}

impl Builder<'_> {
    /// Begins the pass: the residual stream, with the embeddings of the tokens.
    pub fn embedding(&mut self) -> Result<BufferId> {
        let config = self.config;
        let x = self.buffer("hidden", config.hidden);
        let (rows, scale) = (config.vocabulary, config.embedding_scale);
        self.embed("token_embd", rows, Lookup::Token, scale, x)?;
        Ok(x)
    }

    /// Queries, keys and values of `x` by three linear layers.
    pub fn queries_keys_values(&mut self, x: BufferId, layer: usize) -> Result<[BufferId; 3]> {
        let config = self.config;
        let (wide, narrow) = (
            config.heads * config.head_dim,
            config.kv_heads * config.head_dim,
        );
        Ok([
            self.linear(x, &name(layer, "attn_q"), wide, "q")?,
            self.linear(x, &name(layer, "attn_k"), narrow, "k")?,
            self.linear(x, &name(layer, "attn_v"), narrow, "v")?,
        ])
    }

    /// The same with queries and keys normalised, head by head.
    pub fn norm_each_head(
        &mut self,
        [q, k, v]: [BufferId; 3],
        layer: usize,
    ) -> Result<[BufferId; 3]> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        Ok([
            self.norm_heads(q, &name(layer, "attn_q_norm"), heads, "normed q")?,
            self.norm_heads(k, &name(layer, "attn_k_norm"), kv_heads, "normed k")?,
            v,
        ])
    }

    /// The same with queries and keys normalised, each head by a vector of its own, where the file has them.
    pub fn norm_heads_if_told(
        &mut self,
        [q, k, v]: [BufferId; 3],
        layer: usize,
    ) -> Result<[BufferId; 3]> {
        let (heads, kv_heads) = (self.config.heads, self.config.kv_heads);
        let (q_norm, k_norm) = (name(layer, "attn_q_norm"), name(layer, "attn_k_norm"));
        if !self.has(&q_norm) {
            return Ok([q, k, v]);
        }
        Ok([
            self.norm_heads_apart(q, &q_norm, heads, "normed q")?,
            self.norm_heads_apart(k, &k_norm, kv_heads, "normed k")?,
            v,
        ])
    }

    /// The same with queries and keys normalised, all heads together.
    pub fn norm_all_heads(
        &mut self,
        [q, k, v]: [BufferId; 3],
        layer: usize,
    ) -> Result<[BufferId; 3]> {
        Ok([
            self.norm(q, &name(layer, "attn_q_norm"), "normed q")?,
            self.norm(k, &name(layer, "attn_k_norm"), "normed k")?,
            v,
        ])
    }

    /// Rotates queries and keys, stores keys and values in the layer's cache, and attends.
    pub fn attention(&mut self, [q, k, v]: [BufferId; 3], layer: usize) -> Result<BufferId> {
        let config = self.config;
        let (heads, place) = (config.heads, config.place(layer));
        let out = self.buffer("attended", self.columns(q));
        let rotation = match config.layers[layer].rope {
            None => None,
            Some(number) => Some(Rotation {
                table: self.rope_table(number)?,
                pairing: config.ropes[number].pairing,
                dims: config.ropes[number].dims,
            }),
        };
        self.op(Op::RotaryStore(RotaryStore {
            q,
            k,
            v,
            rotation,
            layer: place,
            heads,
        }));
        self.op(Op::Attention(Attention {
            q,
            layer: place,
            heads,
            scale: config.attention_scale,
            window: config.layers[layer].window,
            cap: config.attention_cap,
            out,
        }));
        Ok(out)
    }

    /// The short convolution of `x` between its gates, up to the last matrix.
    pub fn short_conv(&mut self, x: BufferId, layer: usize) -> Result<BufferId> {
        let config = self.config;
        let (hidden, taps) = (config.hidden, config.taps);
        let gates = self.linear(x, &name(layer, "shortconv.in_proj"), 3 * hidden, "gates")?;
        let conv = name(layer, "shortconv.conv");
        let out = self.buffer("convolved", hidden);
        let weight = self.weight(&conv, 1, hidden * taps)?;
        let bias = self.bias(&conv, hidden)?;
        self.op(Op::ShortConv(ShortConv {
            x: gates,
            weight,
            bias,
            taps,
            layer: config.place(layer),
            out,
        }));
        Ok(out)
    }

    /// The gated feed-forward layer of `x`, up to its last matrix.
    pub fn gate(&mut self, x: BufferId, layer: usize) -> Result<BufferId> {
        let config = self.config;
        let (gate, up) = (name(layer, "ffn_gate"), name(layer, "ffn_up"));
        self.gated(x, &gate, &up, config.activation, config.intermediate)
    }

    /// The gated feed-forward layer of `x`, added to `residual`.
    pub fn feed_forward(&mut self, x: BufferId, layer: usize, residual: BufferId) -> Result<()> {
        let gated = self.gate(x, layer)?;
        self.linear_add(gated, &name(layer, "ffn_down"), residual)
    }

    /// The feed-forward layer without a gate of `x`, added to `residual`.
    pub fn plain_feed_forward(
        &mut self,
        x: BufferId,
        layer: usize,
        residual: BufferId,
    ) -> Result<()> {
        let (width, activation) = (self.config.intermediate, Some(self.config.activation));
        let up = name(layer, "ffn_up");
        let active = self.linear_activated(x, &up, width, activation, "active")?;
        self.linear_add(active, &name(layer, "ffn_down"), residual)
    }

    /// The layer's mixture of experts of `x`, added to `residual`; or its feed-forward layer, if it has no
    /// router.
    pub fn mixture(&mut self, x: BufferId, layer: usize, residual: BufferId) -> Result<()> {
        let router = name(layer, "ffn_gate_inp");
        let sparse = self.has(&router);
        if self.config.layers[layer]
            .sparse
            .is_some_and(|said| said != sparse)
        {
            let message = "config.json and the tensors disagree whether this layer is a mixture";
            return Err(Error::weights(router, message));
        }
        let Some(mixture) = self.config.experts.filter(|_| sparse) else {
            return self.feed_forward(x, layer, residual);
        };
        let (count, width) = (mixture.count, mixture.width);
        let hidden = self.columns(x);
        let scores = self.linear(x, &router, count, "router")?;
        let route = self.buffer("route", 2 * mixture.chosen);
        self.op(Op::Route(Route {
            scores,
            normalise: mixture.normalise,
            out: route,
        }));
        let gated = self.buffer("experts", Experts::between(mixture.chosen, width));
        let gate = self.weight(&name(layer, "ffn_gate_exps"), count * width, hidden)?;
        let up = self.weight(&name(layer, "ffn_up_exps"), count * width, hidden)?;
        let down = self.weight(&name(layer, "ffn_down_exps"), count * hidden, width)?;
        self.op(Op::Experts(Experts {
            x,
            route,
            experts: count,
            gate,
            up,
            down,
            activation: self.config.activation,
            gated,
            out: residual,
        }));
        Ok(())
    }

    /// A whole pass whose layers have one norm, before attention and feed-forward layer alike.
    pub fn parallel_layers(&mut self) -> Result<()> {
        let x = self.embedding()?;
        for layer in 0..self.config.layers.len() {
            let normed = self.norm(x, &name(layer, "attn_norm"), "normed")?;
            let qkv = self.queries_keys_values(normed, layer)?;
            let qkv = self.norm_heads_if_told(qkv, layer)?;
            let attended = self.attention(qkv, layer)?;
            self.linear_add(attended, &name(layer, "attn_output"), x)?;
            self.feed_forward(normed, layer, x)?;
        }
        self.head(x)
    }

    /// Ends the pass: the last norm, and the logits of the rows that are wanted. A tied model has no output
    /// matrix of its own.
    pub fn head(&mut self, x: BufferId) -> Result<()> {
        self.head_after(x, "output_norm")
    }

    /// The same with the name of the last norm.
    pub fn head_after(&mut self, x: BufferId, norm: &str) -> Result<()> {
        let selected = self.select_rows(x);
        let normed = self.norm(selected, norm, "normed")?;
        let matrix = match self.has("output") {
            true => "output",
            false => "token_embd",
        };
        self.logits(normed, matrix)
    }
}
