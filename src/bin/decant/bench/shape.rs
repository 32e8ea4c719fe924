//! Sizes of models to measure with random weights, so that no file is needed.

use decant::{
    model::{Graph, GraphOptions},
    tensor::{DType, WeightSpec},
    weights::{Format, Index, Metadata, TensorInfo, Value},
};

use crate::Outcome;

/// The sizes of a Llama model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    pub name: &'static str,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub feed_forward: usize,
    pub vocabulary: usize,
}

/// The shapes that can be named: SmolLM2-135M, Llama 3.2 1B and 3B, and one to try the bench itself.
pub const SHAPES: [Shape; 4] = [
    Shape {
        name: "135m",
        hidden: 576,
        layers: 30,
        heads: 9,
        kv_heads: 3,
        feed_forward: 1536,
        vocabulary: 49_152,
    },
    Shape {
        name: "1b",
        hidden: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        feed_forward: 8192,
        vocabulary: 128_256,
    },
    Shape {
        name: "3b",
        hidden: 3072,
        layers: 28,
        heads: 24,
        kv_heads: 8,
        feed_forward: 8192,
        vocabulary: 128_256,
    },
    Shape {
        name: "tiny",
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        feed_forward: 96,
        vocabulary: 256,
    },
];

impl Shape {
    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim()
    }

    /// Multiply-adds of a token in all matrices: values of the layers and of the head.
    pub fn matrix_values(&self) -> usize {
        self.layers * self.layer_values() + self.hidden * self.vocabulary
    }

    /// Values of the matrices of a layer.
    pub fn layer_values(&self) -> usize {
        let attention = 2 * self.hidden * (self.hidden + self.kv_width());
        attention + 3 * self.hidden * self.feed_forward
    }

    /// Bytes of keys and values, in half precision, that a token at `context` reads.
    pub fn cache_bytes(&self, context: usize) -> usize {
        self.layers * context * self.kv_width() * 2 * 2
    }

    /// A model of this shape whose matrices are of `dtype`; embedding and head are one matrix.
    pub fn graph(&self, dtype: DType, context: usize) -> Outcome<Graph> {
        let number = |n: usize| Value::Unsigned(n as u64);
        let keys = [
            ("general.architecture", Value::String("llama".into())),
            ("llama.embedding_length", number(self.hidden)),
            ("llama.block_count", number(self.layers)),
            ("llama.attention.head_count", number(self.heads)),
            ("llama.attention.head_count_kv", number(self.kv_heads)),
            ("llama.feed_forward_length", number(self.feed_forward)),
            ("llama.vocab_size", number(self.vocabulary)),
            ("llama.context_length", number(context)),
            ("llama.attention.layer_norm_rms_epsilon", Value::Float(1e-5)),
            ("llama.rope.dimension_count", number(self.head_dim())),
        ];
        let keys = keys.map(|(name, value)| (name.to_owned(), value));
        let (hidden, kv, wide) = (self.hidden, self.kv_width(), self.feed_forward);
        let mut tensors = vec![
            ("token_embd".to_owned(), self.vocabulary, hidden),
            ("output_norm".to_owned(), 1, hidden),
        ];
        for layer in 0..self.layers {
            let of_layer = [
                ("attn_norm", 1, hidden),
                ("attn_q", hidden, hidden),
                ("attn_k", kv, hidden),
                ("attn_v", kv, hidden),
                ("attn_output", hidden, hidden),
                ("ffn_norm", 1, hidden),
                ("ffn_gate", wide, hidden),
                ("ffn_up", wide, hidden),
                ("ffn_down", hidden, wide),
            ];
            let named = |(name, rows, columns)| (format!("blk.{layer}.{name}"), rows, columns);
            tensors.extend(of_layer.map(named));
        }
        let tensors = tensors.into_iter().map(|(name, rows, columns)| TensorInfo {
            spec: WeightSpec {
                name: format!("{name}.weight"),
                dtype: if rows == 1 { DType::F32 } else { dtype },
                rows,
                columns,
            },
            offset: 0,
        });
        let index = Index {
            format: Format::Gguf,
            metadata: Metadata(keys.into()),
            tensors: tensors.collect(),
            ..Index::default()
        };
        let options = GraphOptions {
            context_length: Some(context),
            quantise: None,
        };
        Ok(Graph::from_index(index, options)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_models() {
        for shape in SHAPES {
            let graph = shape.graph(DType::F16, 256).unwrap();
            let matrices = graph.weights.iter().map(|weight| &weight.spec);
            let matrices = matrices.filter(|spec| spec.dtype == DType::F16);
            let values: usize = matrices.map(|spec| spec.rows * spec.columns).sum();
            assert_eq!(values, shape.matrix_values(), "{}", shape.name);
            let cache = graph.cache(decant::ops::CacheType::F16, 32, 8);
            assert_eq!(
                cache.bytes(),
                shape.cache_bytes(256) as u64,
                "{}",
                shape.name
            );
        }
    }
}
