//! Operations: mathematics at the grain worth fusing, one file each.
//!
//! An operation says what is computed, not how. Its file holds its arguments, the rule its shapes
//! obey (`check`), and `reference`: the textbook formula on slices with sums in f64, naive on purpose.
//! The reference is the oracle for every kernel and explains the operation to the next reader.
//!
//! Activations are f32 matrices with a row for each token of the step. A *row count* is only known
//! when the step runs, so operations name columns and leave rows to their buffers.

pub mod attention;
pub mod embed;
pub mod experts;
pub mod gated_matmul;
pub mod matmul;
pub mod norm;
pub mod rotary_store;
pub mod route;
pub mod select_rows;
pub mod short_conv;

pub use attention::Attention;
pub use embed::{Embed, Lookup};
pub use experts::Experts;
pub use gated_matmul::GatedMatMul;
pub use matmul::{Activation, MatMul};
pub use norm::Norm;
pub use rotary_store::{Pairing, RotaryStore, Rotation};
pub use route::Route;
pub use select_rows::SelectRows;
pub use short_conv::ShortConv;

use crate::{
    error::{Error, Result},
    tensor::WeightSpec,
};

/// An activation buffer of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub usize);

/// A weight of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeightId(pub usize);

/// What a buffer has a row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Every token of the step.
    Tokens,
    /// Every token whose logits are wanted.
    Outputs,
}

/// An activation: `rows × columns` f32, row after row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSpec {
    /// What it holds, for messages and for comparing executors.
    pub name: String,
    /// What it has a row for.
    pub rows: Rows,
    /// Values in a row.
    pub columns: usize,
}

/// The cache that a tape's layers share.
///
/// Pages hold `page_size` positions. A position holds `kv_heads × head_dim` keys and as many values for
/// each attention layer, and `conv_width` values for each layer that convolves. Those need only the last
/// few positions, but from any position on: so a sequence can be shortened, forked and shared alike,
/// whatever its layers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSpec {
    /// Attention layers, each with a pool of keys and one of values.
    pub layers: usize,
    /// Key-value heads of a layer.
    pub kv_heads: usize,
    /// Values in a head.
    pub head_dim: usize,
    /// Layers that convolve, each with a pool.
    pub conv_layers: usize,
    /// Channels of these layers; not 0.
    pub conv_width: usize,
    /// How entries are stored.
    pub dtype: CacheType,
    /// Positions in a page.
    pub page_size: usize,
    /// Pages in a layer's pool.
    pub pages: usize,
}

/// How cache entries are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheType {
    /// Single precision.
    F32,
    /// Half precision, two entries a word.
    F16,
}

impl CacheSpec {
    /// Values that one position holds in one attention layer, of keys or of values.
    pub fn width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Bytes of the whole cache: every layer's pools.
    pub fn bytes(&self) -> u64 {
        let entry = match self.dtype {
            CacheType::F32 => 4,
            CacheType::F16 => 2,
        };
        // A device may hold more than a wasm program can count in its own words.
        let product = |counts: &[usize]| counts.iter().map(|&count| count as u64).product::<u64>();
        let values = product(&[2, self.layers, self.width()])
            + product(&[self.conv_layers, self.conv_width]);
        entry * product(&[self.pages, self.page_size]) * values
    }
}

/// One step of a tape.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Tokens or positions to rows of a matrix.
    Embed(Embed),
    /// Normalisation of rows or of their groups.
    Norm(Norm),
    /// A linear layer with optional bias, scale, activation and residual.
    MatMul(MatMul),
    /// Two linear layers joined by an activation.
    GatedMatMul(GatedMatMul),
    /// Chooses experts for each row.
    Route(Route),
    /// Gated feed-forward layers of the chosen experts.
    Experts(Experts),
    /// Rotary embedding of queries and keys; keys and values to the cache.
    RotaryStore(RotaryStore),
    /// Causal attention over the cache.
    Attention(Attention),
    /// Causal convolution over the last few positions, between two gates.
    ShortConv(ShortConv),
    /// Keeps the rows whose logits are wanted.
    SelectRows(SelectRows),
}

/// What the shape rules see: everything an operation's ids point to.
pub struct Shapes<'a> {
    /// The tape's buffers.
    pub buffers: &'a [BufferSpec],
    /// The model's weights.
    pub weights: &'a [WeightSpec],
    /// The cache.
    pub cache: &'a CacheSpec,
}

impl Op {
    /// Fails if the shapes that this operation's ids point to do not belong together.
    pub fn check(&self, shapes: &Shapes) -> Result<()> {
        match self {
            Self::Embed(op) => op.check(shapes),
            Self::Norm(op) => op.check(shapes),
            Self::MatMul(op) => op.check(shapes),
            Self::GatedMatMul(op) => op.check(shapes),
            Self::Route(op) => op.check(shapes),
            Self::Experts(op) => op.check(shapes),
            Self::RotaryStore(op) => op.check(shapes),
            Self::Attention(op) => op.check(shapes),
            Self::ShortConv(op) => op.check(shapes),
            Self::SelectRows(op) => op.check(shapes),
        }
    }

    /// The stem of its file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Embed(_) => "embed",
            Self::Norm(_) => "norm",
            Self::MatMul(_) => "matmul",
            Self::GatedMatMul(_) => "gated_matmul",
            Self::Route(_) => "route",
            Self::Experts(_) => "experts",
            Self::RotaryStore(_) => "rotary_store",
            Self::Attention(_) => "attention",
            Self::ShortConv(_) => "short_conv",
            Self::SelectRows(_) => "select_rows",
        }
    }

    /// Whether it reads `buffer`, be it to add to it.
    pub fn reads(&self, buffer: BufferId) -> bool {
        match self {
            Self::Embed(op) => op.add && op.out == buffer,
            Self::Norm(op) => op.x == buffer || (op.add && op.out == buffer),
            Self::MatMul(op) => op.x == buffer || op.residual == Some(buffer),
            Self::GatedMatMul(op) => op.x == buffer,
            Self::Route(op) => op.scores == buffer,
            Self::Experts(op) => [op.x, op.route, op.gated, op.out].contains(&buffer),
            Self::RotaryStore(op) => [op.q, op.k, op.v].contains(&buffer),
            Self::Attention(op) => op.q == buffer,
            Self::ShortConv(op) => op.x == buffer,
            Self::SelectRows(op) => op.x == buffer,
        }
    }

    /// The buffer it writes.
    pub fn out(&self) -> BufferId {
        match self {
            Self::Embed(op) => op.out,
            Self::Norm(op) => op.out,
            Self::MatMul(op) => op.out,
            Self::GatedMatMul(op) => op.out,
            Self::Route(op) => op.out,
            Self::Experts(op) => op.out,
            Self::RotaryStore(op) => op.q,
            Self::Attention(op) => op.out,
            Self::ShortConv(op) => op.out,
            Self::SelectRows(op) => op.out,
        }
    }
}

impl Shapes<'_> {
    /// Fails unless `buffer` has `columns` columns and its rows are for `rows`.
    pub(crate) fn buffer(&self, buffer: BufferId, rows: Rows, columns: usize) -> Result<()> {
        let spec = self.spec(buffer)?;
        if spec.columns == columns && spec.rows == rows {
            return Ok(());
        }
        Err(Error::internal(format!(
            "buffer {} is {:?} × {}, an operation needs {rows:?} × {columns}",
            spec.name, spec.rows, spec.columns
        )))
    }

    /// The shape of `buffer`.
    pub(crate) fn spec(&self, buffer: BufferId) -> Result<&BufferSpec> {
        self.buffers
            .get(buffer.0)
            .ok_or_else(|| Error::internal(format!("there is no buffer {}", buffer.0)))
    }

    /// Rows of `weight`.
    pub(crate) fn rows(&self, weight: WeightId) -> Result<usize> {
        self.stored(weight).map(|spec| spec.rows)
    }

    fn stored(&self, weight: WeightId) -> Result<&WeightSpec> {
        self.weights
            .get(weight.0)
            .ok_or_else(|| Error::internal(format!("there is no weight {}", weight.0)))
    }

    /// Fails unless `weight` is `rows × columns`; names the tensor.
    pub(crate) fn weight(&self, weight: WeightId, rows: usize, columns: usize) -> Result<()> {
        let spec = self.stored(weight)?;
        if (spec.rows, spec.columns) == (rows, columns) {
            return Ok(());
        }
        Err(Error::weights(
            &spec.name,
            format!(
                "the tensor is {} × {}, the model needs {rows} × {columns}",
                spec.rows, spec.columns
            ),
        ))
    }
}
