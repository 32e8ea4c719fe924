//! Writes a tape the way a forward pass reads: one call an operation, tensors by name.
//!
//! Names of tensors come without `.weight` and `.bias`; a bias is added where the file has one. The
//! parts that most families share are in [`blocks`](super::blocks).

use std::collections::HashMap;

use super::{ModelConfig, Rope, tensors::Tensors};
use crate::{
    error::{Error, Result},
    ops::{
        Activation, BufferId, BufferSpec, Embed, GatedMatMul, Lookup, MatMul, Norm, Op, Rows,
        SelectRows, WeightId,
    },
    tape::Tape,
    tensor::{DType, WeightSpec},
    weights::{MAX_TENSOR, Recipe},
};

/// A weight of the model and where its values come from.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightEntry {
    /// Name, element type and shape.
    pub spec: WeightSpec,
    /// Where the values come from.
    pub source: WeightSource,
}

impl WeightEntry {
    /// The places of the tensors whose values are factors of its angles.
    pub fn factors(&self) -> &[usize] {
        match &self.source {
            WeightSource::Angles(_, _, tensors) => tensors,
            WeightSource::Tensors(_) => &[],
        }
    }
}

/// Where a weight's values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum WeightSource {
    /// Tensors of the file, by their places in the index.
    Tensors(Recipe),
    /// A table of angles, made once all tensors are there: what makes it, its positions, and the places in
    /// the index of the tensors that hold factors.
    Angles(Rope, usize, Vec<usize>),
}

/// Appends operations to a tape. Buffers are shared by name: asking for a name again gives the same
/// buffer, so layers work in the same memory.
pub struct Builder<'a> {
    pub(super) config: &'a ModelConfig,
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
            config: tensors.config,
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

    /// Whether the file holds the matrix or vector `name.weight`.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.has(&format!("{name}.weight"))
    }

    /// The buffer called `name`, with a row for every token.
    pub fn buffer(&mut self, name: &str, columns: usize) -> BufferId {
        self.buffer_of(name, Rows::Tokens, columns)
    }

    /// Values in a row of a buffer.
    pub fn columns(&self, buffer: BufferId) -> usize {
        self.buffers[buffer.0].columns
    }

    /// The tensor `name.weight`, which must be `rows × columns`.
    pub fn weight(&mut self, name: &str, rows: usize, columns: usize) -> Result<WeightId> {
        self.tensor(&format!("{name}.weight"), rows, columns)
    }

    /// The vector `name.bias` of `columns` values, where the file has it.
    pub fn bias(&mut self, name: &str, columns: usize) -> Result<Option<WeightId>> {
        let name = format!("{name}.bias");
        match self.tensors.has(&name) {
            true => self.tensor(&name, 1, columns).map(Some),
            false => Ok(None),
        }
    }

    /// Appends an operation.
    pub fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Tokens, or positions, to rows of the matrix `name`, which has `rows`; `scale` multiplies what comes
    /// of tokens, and positions are added to it.
    pub fn embed(
        &mut self,
        name: &str,
        rows: usize,
        lookup: Lookup,
        scale: f32,
        out: BufferId,
    ) -> Result<()> {
        let weight = self.weight(name, rows, self.columns(out))?;
        self.op(Op::Embed(Embed {
            weight,
            lookup,
            scale,
            add: lookup == Lookup::Position,
            out,
        }));
        Ok(())
    }

    /// Normalises each row of `x` into the buffer called `out`.
    pub fn norm(&mut self, x: BufferId, name: &str, out: &str) -> Result<BufferId> {
        let BufferSpec { rows, columns, .. } = self.buffers[x.0];
        let out = self.buffer_of(out, rows, columns);
        self.norm_into(x, name, 1, false, out)?;
        Ok(out)
    }

    /// Normalises each head of `x` by itself into the buffer called `out`.
    pub fn norm_heads(
        &mut self,
        x: BufferId,
        name: &str,
        heads: usize,
        out: &str,
    ) -> Result<BufferId> {
        let out = self.buffer(out, self.columns(x));
        self.norm_into(x, name, heads, false, out)?;
        Ok(out)
    }

    /// The same by a vector for every head instead of one for all.
    pub fn norm_heads_apart(
        &mut self,
        x: BufferId,
        name: &str,
        heads: usize,
        out: &str,
    ) -> Result<BufferId> {
        let columns = self.columns(x);
        let out = self.buffer(out, columns);
        self.norm_by(x, name, (heads, columns), false, out)?;
        Ok(out)
    }

    /// Normalises each row of `x` and adds it to `residual`.
    pub fn norm_add(&mut self, x: BufferId, name: &str, residual: BufferId) -> Result<()> {
        self.norm_into(x, name, 1, true, residual)
    }

    /// A linear layer into the buffer called `out`.
    pub fn linear(
        &mut self,
        x: BufferId,
        name: &str,
        outputs: usize,
        out: &str,
    ) -> Result<BufferId> {
        self.linear_activated(x, name, outputs, None, out)
    }

    /// A linear layer whose results pass through `activation`.
    pub fn linear_activated(
        &mut self,
        x: BufferId,
        name: &str,
        outputs: usize,
        activation: Option<Activation>,
        out: &str,
    ) -> Result<BufferId> {
        let out = self.buffer_of(out, self.buffers[x.0].rows, outputs);
        self.matmul(x, name, 1.0, activation, None, out)?;
        Ok(out)
    }

    /// A linear layer whose result, times the model's residual scale, is added to `residual`.
    pub fn linear_add(&mut self, x: BufferId, name: &str, residual: BufferId) -> Result<()> {
        let scale = self.config.residual_scale;
        self.matmul(x, name, scale, None, Some(residual), residual)
    }

    /// `activation(gate(x)) · up(x)` of two linear layers.
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
        let biases = [self.bias(gate, outputs)?, self.bias(up, outputs)?];
        let (gate, up) = (
            self.weight(gate, outputs, columns)?,
            self.weight(up, outputs, columns)?,
        );
        self.op(Op::GatedMatMul(GatedMatMul {
            x,
            gate,
            up,
            biases,
            activation,
            out,
        }));
        Ok(out)
    }

    /// Keeps the rows of `x` whose logits are wanted.
    pub fn select_rows(&mut self, x: BufferId) -> BufferId {
        let out = self.buffer_of("selected", Rows::Outputs, self.columns(x));
        self.op(Op::SelectRows(SelectRows { x, out }));
        out
    }

    /// Ends the pass: logits are `x` times the matrix `name`, scaled and capped as the model says.
    pub fn logits(&mut self, x: BufferId, name: &str) -> Result<()> {
        let config = self.config;
        let out = self.buffer_of("logits", Rows::Outputs, config.vocabulary);
        let cap = config.logit_cap.map(Activation::SoftCap);
        self.matmul(x, name, config.logit_scale, cap, None, out)?;
        self.logits = Some(out);
        Ok(())
    }

    /// The table of `rope`'s angles for all positions, set after set.
    pub(super) fn rope_table(&mut self, number: usize) -> Result<WeightId> {
        let rope = &self.config.ropes[number];
        let name = format!("rope table {number}");
        if let Some(&id) = self.by_name.get(&name) {
            return Ok(id);
        }
        let tensors = rope.tensors().into_iter();
        let places: Vec<usize> = tensors
            .map(|name| self.tensors.vector(name, rope.dims / 2))
            .collect::<Result<_>>()?;
        let (sets, positions) = (rope.sets(), self.positions);
        let bytes = (4 * sets * rope.dims) as u64 * positions as u64;
        if bytes > MAX_TENSOR {
            let message = format!("the angles of {positions} positions take {bytes} bytes");
            return Err(Error::option("contextLength", message));
        }
        let source = WeightSource::Angles(rope.clone(), positions, places);
        let spec = WeightSpec {
            name: name.clone(),
            dtype: DType::F32,
            rows: sets * positions,
            columns: rope.dims,
        };
        Ok(self.entry(&name, WeightEntry { spec, source }))
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

    fn norm_into(
        &mut self,
        x: BufferId,
        name: &str,
        groups: usize,
        add: bool,
        out: BufferId,
    ) -> Result<()> {
        let size = self.columns(x) / groups;
        self.norm_by(x, name, (groups, size), add, out)
    }

    /// Normalises each of `groups` by a vector of `size` values, those of one group or of all.
    fn norm_by(
        &mut self,
        x: BufferId,
        name: &str,
        (groups, size): (usize, usize),
        add: bool,
        out: BufferId,
    ) -> Result<()> {
        let norm = self.config.norm;
        let (weight, bias) = (self.weight(name, 1, size)?, self.bias(name, size)?);
        self.op(Op::Norm(Norm {
            x,
            groups,
            centred: norm.centred,
            weight,
            bias,
            epsilon: norm.epsilon,
            add,
            out,
        }));
        Ok(())
    }

    fn matmul(
        &mut self,
        x: BufferId,
        name: &str,
        scale: f32,
        activation: Option<Activation>,
        residual: Option<BufferId>,
        out: BufferId,
    ) -> Result<()> {
        let (inputs, outputs) = (self.columns(x), self.columns(out));
        let (weight, bias) = (
            self.weight(name, outputs, inputs)?,
            self.bias(name, outputs)?,
        );
        self.op(Op::MatMul(MatMul {
            x,
            weight,
            bias,
            scale,
            activation,
            residual,
            out,
        }));
        Ok(())
    }

    fn tensor(&mut self, name: &str, rows: usize, columns: usize) -> Result<WeightId> {
        if let Some(&id) = self.by_name.get(name) {
            return Ok(id);
        }
        let (spec, recipe) = self.tensors.weight(name, rows, columns)?;
        let source = WeightSource::Tensors(recipe);
        Ok(self.entry(name, WeightEntry { spec, source }))
    }

    fn entry(&mut self, name: &str, entry: WeightEntry) -> WeightId {
        let id = WeightId(self.weights.len());
        self.weights.push(entry);
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
