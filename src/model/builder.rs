//! Writes a tape the way a forward pass reads: one call an operation, tensors by name.

use std::collections::HashMap;

use super::{Rope, rope, tensors::Tensors};
use crate::{
    error::{Error, Result},
    ops::{
        Activation, Attention, BufferId, BufferSpec, Embed, GatedMatMul, Lookup, MatMul, Norm, Op,
        RotaryStore, Rotation, Rows, SelectRows, WeightId,
    },
    tape::Tape,
    tensor::{DType, WeightSpec},
    weights::Recipe,
};

/// A weight of the model and where its values come from.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightEntry {
    /// Name, element type and shape.
    pub spec: WeightSpec,
    /// Where the values come from.
    pub source: WeightSource,
}

/// Where a weight's values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightSource {
    /// Tensors of the file, by their places in the index.
    Tensors(Recipe),
    /// Values made when the model is described; f32, row after row.
    Values(Vec<f32>),
}

/// Appends operations to a tape. Buffers are shared by name: asking for a name again gives the same
/// buffer, so layers work in the same memory.
pub struct Builder<'a> {
    tensors: Tensors<'a>,
    positions: usize,
    max_rows: usize,
    max_outputs: usize,
    buffers: Vec<BufferSpec>,
    weights: Vec<WeightEntry>,
    by_name: HashMap<String, WeightId>,
    ops: Vec<Op>,
    logits: Option<BufferId>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        tensors: Tensors<'a>,
        positions: usize,
        max_rows: usize,
        max_outputs: usize,
    ) -> Self {
        Self {
            tensors,
            positions,
            max_rows,
            max_outputs,
            buffers: Vec::new(),
            weights: Vec::new(),
            by_name: HashMap::new(),
            ops: Vec::new(),
            logits: None,
        }
    }

    /// Whether the file holds a tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.has(name)
    }

    /// The buffer called `name`, with a row for every token.
    pub fn buffer(&mut self, name: &str, columns: usize) -> BufferId {
        self.buffer_of(name, Rows::Tokens, columns)
    }

    /// The tensor called `name`, which must be `rows × columns`.
    pub fn weight(&mut self, name: &str, rows: usize, columns: usize) -> Result<WeightId> {
        if let Some(&id) = self.by_name.get(name) {
            return Ok(id);
        }
        let (spec, recipe) = self.tensors.weight(name, rows, columns)?;
        Ok(self.entry(name, || WeightEntry {
            spec,
            source: WeightSource::Tensors(recipe),
        }))
    }

    /// Token ids to rows of the matrix called `name`.
    pub fn embed(&mut self, name: &str, vocabulary: usize, out: BufferId) -> Result<()> {
        let weight = self.weight(name, vocabulary, self.buffers[out.0].columns)?;
        self.ops.push(Op::Embed(Embed {
            weight,
            lookup: Lookup::Token,
            scale: 1.0,
            add: false,
            out,
        }));
        Ok(())
    }

    /// Normalises `x` with the vector called `name`, into the buffer called `out`.
    pub fn rms_norm(
        &mut self,
        x: BufferId,
        name: &str,
        epsilon: f32,
        out: &str,
    ) -> Result<BufferId> {
        let BufferSpec { rows, columns, .. } = self.buffers[x.0];
        let weight = self.weight(name, 1, columns)?;
        let out = self.buffer_of(out, rows, columns);
        self.ops.push(Op::Norm(Norm {
            x,
            groups: 1,
            centred: false,
            weight,
            bias: None,
            epsilon,
            add: false,
            out,
        }));
        Ok(out)
    }

    /// A linear layer: the matrix `name.weight` and, where the file has it, the vector `name.bias`.
    pub fn linear(
        &mut self,
        x: BufferId,
        name: &str,
        outputs: usize,
        out: &str,
    ) -> Result<BufferId> {
        let out = self.buffer_of(out, self.buffers[x.0].rows, outputs);
        self.matmul(x, name, None, out)?;
        Ok(out)
    }

    /// A linear layer whose result is added to `residual`.
    pub fn linear_add(&mut self, x: BufferId, name: &str, residual: BufferId) -> Result<()> {
        self.matmul(x, name, Some(residual), residual)
    }

    /// `activation(x · gateᵀ) · (x · upᵀ)`.
    pub fn gated(
        &mut self,
        x: BufferId,
        gate: &str,
        up: &str,
        activation: Activation,
        outputs: usize,
    ) -> Result<BufferId> {
        let BufferSpec { rows, columns, .. } = self.buffers[x.0];
        let out = self.buffer_of("gated", rows, outputs);
        let (gate, up) = (
            self.weight(gate, outputs, columns)?,
            self.weight(up, outputs, columns)?,
        );
        self.ops.push(Op::GatedMatMul(GatedMatMul {
            x,
            gate,
            up,
            biases: [None; 2],
            activation,
            out,
        }));
        Ok(out)
    }

    /// Rotates `[q, k]`, stores keys and values in `layer`'s cache, and attends.
    pub fn attention(
        &mut self,
        [q, k, v]: [BufferId; 3],
        layer: usize,
        heads: usize,
        rope: &Rope,
    ) -> Result<BufferId> {
        let columns = self.buffers[q.0].columns;
        let out = self.buffer("attended", columns);
        let table = self.rope_table(rope);
        self.ops.push(Op::RotaryStore(RotaryStore {
            q,
            k,
            v,
            rotation: Some(Rotation {
                table,
                pairing: rope.pairing,
                dims: rope.dims,
            }),
            layer,
            heads,
        }));
        let scale = 1.0 / ((columns / heads) as f32).sqrt();
        self.ops.push(Op::Attention(Attention {
            q,
            layer,
            heads,
            scale,
            window: None,
            cap: None,
            out,
        }));
        Ok(out)
    }

    /// Keeps the rows of `x` whose logits are wanted.
    pub fn select_rows(&mut self, x: BufferId) -> BufferId {
        let out = self.buffer_of("selected", Rows::Outputs, self.buffers[x.0].columns);
        self.ops.push(Op::SelectRows(SelectRows { x, out }));
        out
    }

    /// Ends the pass: logits are `x` times the matrix called `name`.
    pub fn logits(&mut self, x: BufferId, name: &str, vocabulary: usize) -> Result<()> {
        let out = self.buffer_of("logits", Rows::Outputs, vocabulary);
        let weight = self.weight(name, vocabulary, self.buffers[x.0].columns)?;
        self.ops.push(Op::MatMul(MatMul {
            x,
            weight,
            bias: None,
            scale: 1.0,
            activation: None,
            residual: None,
            out,
        }));
        self.logits = Some(out);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<(Tape, Vec<WeightEntry>)> {
        let Self {
            buffers,
            ops,
            max_rows,
            max_outputs,
            ..
        } = self;
        let logits = self
            .logits
            .ok_or_else(|| Error::internal("a forward pass without logits"))?;
        Ok((
            Tape {
                buffers,
                ops,
                logits,
                max_rows,
                max_outputs,
            },
            self.weights,
        ))
    }

    fn matmul(
        &mut self,
        x: BufferId,
        name: &str,
        residual: Option<BufferId>,
        out: BufferId,
    ) -> Result<()> {
        let (inputs, outputs) = (self.buffers[x.0].columns, self.buffers[out.0].columns);
        let weight = self.weight(&format!("{name}.weight"), outputs, inputs)?;
        let bias = format!("{name}.bias");
        let bias = if self.has(&bias) {
            Some(self.weight(&bias, 1, outputs)?)
        } else {
            None
        };
        self.ops.push(Op::MatMul(MatMul {
            x,
            weight,
            bias,
            scale: 1.0,
            activation: None,
            residual,
            out,
        }));
        Ok(())
    }

    fn rope_table(&mut self, rope: &Rope) -> WeightId {
        let (rows, columns) = (self.positions, rope.dims);
        self.entry("rope table", || WeightEntry {
            spec: WeightSpec {
                name: "rope table".into(),
                dtype: DType::F32,
                rows,
                columns,
            },
            source: WeightSource::Values(rope::table(rope, rows)),
        })
    }

    fn entry(&mut self, name: &str, make: impl FnOnce() -> WeightEntry) -> WeightId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = WeightId(self.weights.len());
        self.weights.push(make());
        self.by_name.insert(name.into(), id);
        id
    }

    fn buffer_of(&mut self, name: &str, rows: Rows, columns: usize) -> BufferId {
        // The same name may serve both kinds of rows: the last norm runs on the selected rows only.
        let found = self
            .buffers
            .iter()
            .position(|spec| spec.name == name && spec.rows == rows && spec.columns == columns);
        BufferId(found.unwrap_or_else(|| {
            self.buffers.push(BufferSpec {
                name: name.into(),
                rows,
                columns,
            });
            self.buffers.len() - 1
        }))
    }
}
