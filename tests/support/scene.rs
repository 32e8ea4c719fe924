//! Small tapes built by hand and run on any executor.

use decant::{
    error::Result,
    exec::{Allocation, Executor, TapeId},
    ops::{BufferId, BufferSpec, CacheSpec, CacheType, Embed, Lookup, MatMul, Op, Rows, WeightId},
    tape::{Step, Tape},
    tensor::{DType, Matrix, WeightSpec, dequantise},
};

use super::random::Random;

/// A tape, its weights and its cache.
pub struct Scene {
    pub tape: Tape,
    pub weights: Vec<(WeightSpec, Vec<u8>)>,
    pub cache: CacheSpec,
    pub sequences: usize,
    pub pages_per_sequence: usize,
    pub random: Random,
}

impl Scene {
    /// An empty tape for up to `max_rows` tokens. `seed` makes its weights.
    pub fn new(max_rows: usize, seed: u64) -> Self {
        Self {
            tape: Tape {
                buffers: Vec::new(),
                ops: Vec::new(),
                logits: BufferId(0),
                max_rows,
                max_outputs: max_rows,
            },
            weights: Vec::new(),
            cache: CacheSpec {
                layers: 1,
                kv_heads: 1,
                head_dim: 1,
                conv_layers: 0,
                conv_width: 1,
                dtype: CacheType::F32,
                page_size: 1,
                pages: 1,
            },
            sequences: 1,
            pages_per_sequence: max_rows,
            random: Random(seed),
        }
    }

    /// An activation with a row for every token.
    pub fn buffer(&mut self, name: &str, columns: usize) -> BufferId {
        self.tape.buffers.push(BufferSpec {
            name: name.into(),
            rows: Rows::Tokens,
            columns,
        });
        BufferId(self.tape.buffers.len() - 1)
    }

    /// A weight with these blocks.
    pub fn weight(
        &mut self,
        dtype: DType,
        rows: usize,
        columns: usize,
        blocks: Vec<u8>,
    ) -> WeightId {
        let name = format!("weight {}", self.weights.len());
        let spec = WeightSpec {
            name,
            dtype,
            rows,
            columns,
        };
        assert_eq!(spec.bytes(), blocks.len());
        self.weights.push((spec, blocks));
        WeightId(self.weights.len() - 1)
    }

    /// A weight of random blocks, their values about 1 at most.
    pub fn random_weight(&mut self, dtype: DType, rows: usize, columns: usize) -> WeightId {
        let blocks = random_blocks(dtype, rows * columns / dtype.block_len(), &mut self.random);
        self.weight(dtype, rows, columns, blocks)
    }

    /// An F32 weight with these values.
    pub fn values(&mut self, rows: usize, values: &[f32]) -> WeightId {
        let blocks = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.weight(DType::F32, rows, values.len() / rows, blocks)
    }

    /// An activation that holds `values` when the step's tokens are 0, 1, 2…
    pub fn input(&mut self, name: &str, columns: usize, values: &[f32]) -> BufferId {
        let weight = self.values(values.len() / columns, values);
        let out = self.buffer(name, columns);
        self.op(Op::Embed(Embed {
            weight,
            lookup: Lookup::Token,
            scale: 1.0,
            add: false,
            out,
        }));
        out
    }

    /// A product and nothing else, into a buffer called `name`; not yet one of the operations.
    pub fn matmul(&mut self, x: BufferId, weight: WeightId, name: &str) -> MatMul {
        MatMul {
            x,
            weight,
            bias: None,
            scale: 1.0,
            activation: None,
            residual: None,
            out: self.buffer(name, self.weights[weight.0].0.rows),
        }
    }

    pub fn op(&mut self, op: Op) {
        self.tape.ops.push(op);
    }

    /// A weight as numbers.
    pub fn matrix(&self, weight: WeightId) -> Vec<f32> {
        let (spec, blocks) = &self.weights[weight.0];
        let mut values = vec![0.0; spec.rows * spec.columns];
        dequantise(spec.dtype, blocks, &mut values);
        values
    }

    /// A weight as its operation's reference takes it.
    pub fn blocks(&self, weight: WeightId) -> Matrix<'_> {
        let (spec, blocks) = &self.weights[weight.0];
        Matrix {
            dtype: spec.dtype,
            rows: spec.rows,
            columns: spec.columns,
            blocks,
        }
    }

    /// Gives `executor` this scene's weights and tape.
    pub async fn load(&self, executor: &mut impl Executor) -> Result<()> {
        let allocation = Allocation {
            weights: self.weights.iter().map(|(spec, _)| spec.clone()).collect(),
            groups: self.tape.groups(self.weights.len()),
            cache: self.cache,
            sequences: self.sequences,
            pages_per_sequence: self.pages_per_sequence,
        };
        executor.allocate(allocation).await?;
        for (i, (spec, blocks)) in self.weights.iter().enumerate() {
            // In pieces that begin at even blocks, as a stream delivers them.
            let piece = (spec.blocks() / 3).next_multiple_of(2).max(2);
            for (n, piece_blocks) in blocks.chunks(piece * spec.dtype.block_bytes()).enumerate() {
                executor.write_weight(WeightId(i), n * piece, piece_blocks)?;
            }
        }
        executor.prepare(vec![self.tape.clone()]).await
    }

    /// Runs `step` on a loaded executor and reads `buffer`.
    pub async fn run(
        &self,
        executor: &impl Executor,
        step: &Step,
        buffer: BufferId,
    ) -> Result<Vec<f32>> {
        executor.forward(TapeId(0), step).await?;
        executor.read(TapeId(0), buffer, step.tokens.len()).await
    }
}

/// A step of `rows` tokens 0, 1, 2… of one sequence, on pages of one position.
pub fn plain_step(rows: usize) -> Step {
    let all: Vec<u32> = (0..rows as u32).collect();
    Step {
        tokens: all.clone(),
        positions: all.clone(),
        slots: vec![0; rows],
        outputs: Vec::new(),
        tables: vec![all],
        angles: Vec::new(),
    }
}

/// Blocks with random quants and sensible scales: scale × level is at most 2 and a minimum (or what a
/// formula subtracts from levels, times the scale) at most 1, so that values are about 1 at most.
pub fn random_blocks(dtype: DType, count: usize, random: &mut Random) -> Vec<u8> {
    let mut blocks = Vec::with_capacity(count * dtype.block_bytes());
    for _ in 0..count {
        let mut block: Vec<u8> = (0..dtype.block_bytes())
            .map(|_| random.bits() as u8)
            .collect();
        // Where the f16 numbers of a block are, and the most that multiplies them.
        let halves: &[(usize, f32)] = match dtype {
            DType::F32 => {
                block.copy_from_slice(&random.signed().to_le_bytes());
                &[]
            }
            DType::BF16 => {
                block.copy_from_slice(&half::bf16::from_f32(random.signed()).to_le_bytes());
                &[]
            }
            DType::MXFP4 => {
                // At most 12 × 2⁻⁴.
                block[0] = 118 + random.below(7) as u8;
                &[]
            }
            DType::F16 => &[(0, 1.0)],
            DType::Q8_0 | DType::IQ4_NL => &[(0, 127.0)],
            DType::Q4_0 => &[(0, 8.0)],
            DType::Q4_1 => &[(0, 15.0), (2, 1.0)],
            DType::Q5_0 => &[(0, 16.0)],
            DType::Q5_1 => &[(0, 31.0), (2, 1.0)],
            DType::Q2_K => &[(80, 3.0 * 15.0), (82, 15.0)],
            DType::Q3_K => &[(108, 4.0 * 32.0)],
            DType::Q4_K => &[(0, 15.0 * 63.0), (2, 63.0)],
            DType::Q5_K => &[(0, 31.0 * 63.0), (2, 63.0)],
            DType::Q6_K => &[(208, 32.0 * 128.0)],
            DType::IQ4_XS => &[(0, 127.0 * 32.0)],
        };
        for &(at, most) in halves {
            let scale = half::f16::from_f32(random.signed() / most);
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
        blocks.extend(block);
    }
    blocks
}
