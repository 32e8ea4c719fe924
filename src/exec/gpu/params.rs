//! The uniform structs of the kernels: one Rust twin for each `Params` in WGSL.
//!
//! Every field is one word, so the fourth field lies at byte 12 on both sides; a test compares names,
//! order and types with the shaders.

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// An unsigned number.
    U32,
    /// Single precision.
    F32,
}

/// A struct of words that a kernel reads as its `Params`.
pub(super) trait Params {
    /// The words in the order of the fields.
    fn words(&self) -> Vec<u32>;
}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ident),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(super) struct $name { $(pub $field: $ty,)* }

        impl $name {
            /// Names and types of the fields, as in the shader.
            pub const FIELDS: &[(&str, Scalar)] = &[$((stringify!($field), params!(@scalar $ty)),)*];
        }

        impl Params for $name {
            fn words(&self) -> Vec<u32> {
                vec![$(params!(@word self.$field, $ty),)*]
            }
        }
    )* };
    (@scalar u32) => { Scalar::U32 };
    (@scalar f32) => { Scalar::F32 };
    (@word $value:expr, u32) => { $value };
    (@word $value:expr, f32) => { $value.to_bits() };
}

params! {
    /// `lib/matmul.wgsl`.
    MatMulParams {
        rows_at: u32, columns: u32, blocks: u32, outputs: u32, first: u32, quants: u32, scales: u32,
        has_bias: u32, bias: u32, join: u32, x_stride: u32, out_stride: u32, activation: u32, cap: f32,
        scale: f32,
    }
    /// `lib/matmul_fused.wgsl`.
    MatMulFusedParams {
        rows_at: u32, columns: u32, blocks: u32, outputs: u32, first: u32, quants: u32, scales: u32,
        gain: u32, has_bias: u32, bias: u32, x_stride: u32, out_stride: u32, activation: u32, cap: f32,
        scale: f32, epsilon: f32,
    }
    /// `embed.wgsl`.
    EmbedParams {
        indices: u32, columns: u32, blocks: u32, outputs: u32, first: u32, quants: u32, scales: u32,
        out_stride: u32, add: u32, scale: f32,
    }
    /// `lib/norm.wgsl`.
    NormParams {
        rows_at: u32, groups: u32, size: u32, items: u32, stride: u32, weight: u32, weight_items: u32,
        bias: u32, has_bias: u32, add: u32, epsilon: f32,
    }
    /// `route.wgsl`.
    RouteParams { experts: u32, chosen: u32, normalise: u32, stride: u32, out_stride: u32 }
    /// `lib/experts.wgsl`.
    ExpertsParams {
        chosen: u32, columns: u32, blocks: u32, outputs: u32, part: u32, first: u32, quants: u32,
        scales: u32, join: u32, route_stride: u32, x_stride: u32, x_slot: u32, out_stride: u32,
        out_slot: u32, activation: u32, cap: f32,
    }
    /// `select_rows.wgsl`.
    SelectRowsParams { outputs: u32, stride: u32 }
    /// `rotary_store.wgsl`.
    RotaryStoreParams {
        positions: u32, slots: u32, angles: u32, tables: u32, pages: u32, page_size: u32, heads: u32,
        kv_heads: u32, head_dim: u32, quads: u32, rotary_dims: u32, table: u32, q_stride: u32, kv_stride: u32,
    }
    /// `lib/attention.wgsl`.
    AttentionParams {
        positions: u32, slots: u32, tables: u32, pages: u32, page_size: u32, heads: u32, kv_heads: u32,
        head_dim: u32, quads: u32, stride: u32, splits: u32, window: u32, scale: f32, cap: f32,
    }
    /// `attention_rotary.wgsl`.
    AttentionRotaryParams {
        positions: u32, slots: u32, angles: u32, tables: u32, pages: u32, page_size: u32, heads: u32,
        kv_heads: u32, quads: u32, rotary_dims: u32, table: u32, stride: u32, k_at: u32, v_at: u32,
        splits: u32, window: u32, scale: f32, cap: f32,
    }
    /// `short_conv.wgsl`.
    ShortConvParams {
        positions: u32, slots: u32, tables: u32, pages: u32, page_size: u32, width: u32, taps: u32,
        weight: u32, has_bias: u32, bias: u32, x_stride: u32, out_stride: u32,
    }
    /// `lib/sample.wgsl`.
    SampleParams {
        vocabulary: u32, stride: u32, slices: u32, most: u32, tokens: u32, positions: u32, past: u32,
        history: u32,
    }
    /// `attention_merge.wgsl`.
    AttentionMergeParams { heads: u32, quads: u32, splits: u32, stride: u32 }
}

#[cfg(not(target_arch = "wasm32"))]
params! {
    /// `measure_read.wgsl`.
    MeasureReadParams { quads: u32 }
    /// `measure_multiply_add.wgsl`.
    MeasureMultiplyAddParams { rounds: u32, factor: f32, addend: f32 }
}
