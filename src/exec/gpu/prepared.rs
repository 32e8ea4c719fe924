//! A tape made ready: buffers, bind groups and pipelines, so that a step only fills in numbers.

use std::cell::RefCell;

use super::{
    device::Device,
    dispatch::{Alternative, Dispatch, Grid, Operation, Slot, stride},
    lower::Lowering,
    memory::{Budget, Buffer},
    pipelines::Pipelines,
    readback::Staging,
    store::Store,
    tune::Tuner,
};
use crate::{
    error::{Error, Result},
    ops::{BufferId, Rows},
    tape::{Step, StepLayout, Tape},
};

/// A tape on the device.
pub(super) struct Prepared {
    pub tape: Tape,
    pub layout: StepLayout,
    pub buffers: Buffers,
    pub staging: Staging,
    tasks: Vec<Task>,
    words: RefCell<Vec<u32>>,
    /// Bind groups refer to it.
    _params: Buffer,
}

/// What only this tape's dispatches use.
pub(super) struct Buffers {
    pub step: Buffer,
    pub activations: Vec<Buffer>,
    scratch: Buffer,
}

/// An operation with everything bound.
struct Task {
    rows: Rows,
    /// The chosen way of each class of row counts, by the least rows.
    classes: Vec<(usize, Vec<Bound>)>,
}

/// A dispatch with everything bound.
pub(super) struct Bound {
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
    grid: Grid,
}

/// Parameters of dispatches stand at multiples of this many bytes, the largest alignment WebGPU asks for.
const PARAMS_BYTES: u64 = 256;

/// Steps that may be in flight without making a new staging buffer.
const STAGING_BUFFERS: usize = 2;

impl Prepared {
    /// Makes everything that steps of `tape` need. `tuner` chooses where several kernels fit.
    pub async fn new(
        device: &Device,
        budget: &Budget,
        store: &Store,
        pipelines: &Pipelines,
        tuner: &Tuner,
        tape: Tape,
    ) -> Result<Self> {
        let allocation = &store.allocation;
        tape.check(&allocation.weights, &allocation.cache)?;
        let layout = StepLayout {
            rows: tape.max_rows,
            sequences: allocation.sequences,
            pages: allocation.pages_per_sequence,
        };
        let lowering = Lowering {
            tape: &tape,
            layout,
            specs: &allocation.weights,
            placed: &store.placement.weights,
            cache: allocation.cache,
            adapter: device.adapter,
        };
        let operations = lowering.tape()?;
        let scratch = lowering.scratch_bytes();
        let buffers = Buffers::new(device, budget, &tape, &layout, scratch).await?;
        let logits = tape.max_outputs * stride(tape.buffers[tape.logits.0].columns) * 4;
        let staging = Staging::new(device, budget, logits as u64, STAGING_BUFFERS).await?;

        let binder = Binder {
            device,
            store,
            pipelines,
            buffers: &buffers,
        };
        let mut chosen = Vec::with_capacity(operations.len());
        for operation in &operations {
            chosen.push(
                tuner
                    .choose(&binder, budget, operation, &tape, &layout)
                    .await?,
            );
        }
        let (tasks, params) = binder.bind(budget, &operations, &chosen).await?;
        Ok(Self {
            words: RefCell::new(vec![0; layout.len()]),
            tape,
            layout,
            buffers,
            staging,
            tasks,
            _params: params,
        })
    }

    /// Sends `step` to the device and returns how many bytes it took.
    pub fn upload(&self, device: &Device, step: &Step) -> u64 {
        let mut words = self.words.borrow_mut();
        self.layout.write(step, &mut words);
        let used = self.layout.tables() + step.tables.len() * self.layout.pages;
        let bytes: &[u8] = bytemuck::cast_slice(&words[..used]);
        device.queue.write_buffer(&self.buffers.step, 0, bytes);
        bytes.len() as u64
    }

    /// Records every dispatch of a step and returns how many there are.
    pub fn record(&self, device: &Device, encoder: &mut wgpu::CommandEncoder, step: &Step) -> u64 {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        let mut count = 0;
        for task in &self.tasks {
            let rows = match task.rows {
                Rows::Tokens => step.tokens.len(),
                Rows::Outputs => step.outputs.len(),
            };
            let class = task.classes.iter().rev().find(|class| class.0 <= rows);
            let dispatches = class.map_or(&[][..], |class| &class.1);
            for dispatch in dispatches {
                dispatch.record(device, &mut pass, rows);
                count += 1;
            }
        }
        count
    }
}

impl Buffers {
    async fn new(
        device: &Device,
        budget: &Budget,
        tape: &Tape,
        layout: &StepLayout,
        scratch: u64,
    ) -> Result<Self> {
        let mut sizes: Vec<u64> = (0..tape.buffers.len())
            .map(|i| (tape.rows(BufferId(i)) * stride(tape.buffers[i].columns)) as u64 * 4)
            .collect();
        sizes.push(scratch);
        let names = tape.buffers.iter().map(|spec| &*spec.name);
        for (name, &size) in names.chain(["scratch"]).zip(&sizes) {
            if size > device.binding_limit {
                return Err(Error::unsupported(format!(
                    "the activation {name} needs {size} bytes, the device binds {}: use fewer rows a step",
                    device.binding_limit
                )));
            }
        }
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let usage = storage | wgpu::BufferUsages::COPY_SRC;
        let mut activations = budget.buffers(device, "activations", usage, &sizes).await?;
        let words = layout.len() as u64 * 4;
        let mut step = budget.buffers(device, "step", storage, &[words]).await?;
        match (activations.pop(), step.pop()) {
            (Some(scratch), Some(step)) => Ok(Self {
                step,
                activations,
                scratch,
            }),
            _ => Err(Error::internal("buffers were asked for")),
        }
    }
}

impl Bound {
    /// Records this dispatch for `rows` rows.
    pub fn record(&self, device: &Device, pass: &mut wgpu::ComputePass, rows: usize) {
        let (x, y) = self.grid.workgroups(rows, device.group_limit);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.dispatch_workgroups(x, y, 1);
    }
}

/// Joins dispatches with pipelines and buffers.
pub(super) struct Binder<'a> {
    pub device: &'a Device,
    pub store: &'a Store,
    pub pipelines: &'a Pipelines,
    pub buffers: &'a Buffers,
}

impl Binder<'_> {
    /// Binds what is measured of one way to run an operation; the buffer holds its parameters.
    pub async fn sample(
        &self,
        budget: &Budget,
        alternative: &Alternative,
    ) -> Result<(Vec<Bound>, Buffer)> {
        let dispatches: Vec<_> = alternative.sample.iter().collect();
        self.dispatches(budget, &dispatches).await
    }

    /// Binds the chosen alternative of each class of each operation.
    async fn bind(
        &self,
        budget: &Budget,
        operations: &[Operation],
        chosen: &[Vec<(usize, usize)>],
    ) -> Result<(Vec<Task>, Buffer)> {
        let ways = |(operation, chosen): (&'_ Operation, &'_ Vec<(usize, usize)>)| {
            let ways = chosen.iter().map(|&(class, way)| {
                let class = &operation.classes[class];
                (class.from, class.alternatives[way].dispatches.clone())
            });
            (operation.rows, ways.collect::<Vec<_>>())
        };
        let tasks: Vec<_> = operations.iter().zip(chosen).map(ways).collect();
        let all: Vec<&Dispatch> = tasks
            .iter()
            .flat_map(|(_, classes)| classes.iter().flat_map(|(_, dispatches)| dispatches))
            .collect();
        let (bound, params) = self.dispatches(budget, &all).await?;
        let mut bound = bound.into_iter();
        let tasks = tasks.iter().map(|(rows, classes)| Task {
            rows: *rows,
            classes: classes
                .iter()
                .map(|(from, dispatches)| (*from, bound.by_ref().take(dispatches.len()).collect()))
                .collect(),
        });
        Ok((tasks.collect(), params))
    }

    async fn dispatches(
        &self,
        budget: &Budget,
        dispatches: &[&Dispatch],
    ) -> Result<(Vec<Bound>, Buffer)> {
        let device = self.device;
        let mut compiled = Vec::with_capacity(dispatches.len());
        for dispatch in dispatches {
            compiled.push(self.pipelines.get(device, &dispatch.variant).await?);
        }
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let bytes = dispatches.len() as u64 * PARAMS_BYTES;
        let params = budget
            .buffers(device, "parameters", usage, &[bytes])
            .await?;
        let params = params.into_iter().next();
        let params = params.ok_or_else(|| Error::internal("a buffer was asked for"))?;
        let mut words = vec![0u32; bytes as usize / 4];
        for (dispatch, words) in dispatches
            .iter()
            .zip(words.chunks_mut(PARAMS_BYTES as usize / 4))
        {
            words[..dispatch.params.len()].copy_from_slice(&dispatch.params);
        }
        device
            .queue
            .write_buffer(&params, 0, bytemuck::cast_slice(&words));
        // One scope for all, because a question to the device takes longer than a bind group.
        let bound = device.guarded("bind groups", || {
            let numbered = compiled.into_iter().zip(dispatches).enumerate();
            let bound = numbered.map(|(i, (pipeline, dispatch))| Bound {
                pipeline,
                bind_group: self.bind_group(&params, i as u64 * PARAMS_BYTES, dispatch),
                grid: dispatch.grid,
            });
            bound.collect()
        });
        Ok((bound.await?, params))
    }

    fn bind_group(&self, params: &Buffer, at: u64, dispatch: &Dispatch) -> wgpu::BindGroup {
        let kernel = dispatch.variant.kernel;
        let bytes = (dispatch.params.len() as u64 * 4).next_multiple_of(16);
        let uniform = wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: params,
                offset: at,
                size: wgpu::BufferSize::new(bytes),
            }),
        };
        let storage = dispatch.slots.iter();
        let storage = storage.map(|&(binding, slot)| wgpu::BindGroupEntry {
            binding,
            resource: self.buffer(slot).as_entire_binding(),
        });
        let entries: Vec<_> = std::iter::once(uniform).chain(storage).collect();
        let layout = self.pipelines.bind_group_layout(self.device, kernel);
        self.device
            .device
            .create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(kernel.name),
                layout: &layout,
                entries: &entries,
            })
    }

    fn buffer(&self, slot: Slot) -> &wgpu::Buffer {
        match slot {
            Slot::Step => &self.buffers.step,
            Slot::Activation(buffer) => &self.buffers.activations[buffer.0],
            Slot::Weights(buffer) => &self.store.weights[buffer],
            Slot::Keys(layer) => &self.store.cache[layer][0],
            Slot::Values(layer) => &self.store.cache[layer][1],
            Slot::Scratch => &self.buffers.scratch,
            Slot::Nothing => &self.store.nothing,
        }
    }
}
