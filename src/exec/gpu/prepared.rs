//! A tape made ready: buffers, bind groups and pipelines, so that a step only fills in numbers.

use std::cell::RefCell;

use super::{
    device::Device,
    dispatch::{Dispatch, Form, Slot, stride},
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
    pub step: Buffer,
    pub activations: Vec<Buffer>,
    pub staging: Staging,
    tasks: Vec<Task>,
    words: RefCell<Vec<u32>>,
    // Bind groups refer to it.
    _params: Buffer,
}

/// A dispatch with everything bound.
struct Task {
    bind_group: wgpu::BindGroup,
    rows: Rows,
    /// The chosen form of each class of row counts, by the least rows.
    classes: Vec<(usize, wgpu::ComputePipeline, Form)>,
}

/// Parameters of dispatches stand at multiples of this many bytes, the largest alignment WebGPU asks for.
const PARAMS_BYTES: u64 = 256;

/// Steps that may be in flight without making a new staging buffer.
const STAGING_BUFFERS: usize = 2;

impl Prepared {
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
            software: device.software,
        };
        let dispatches = lowering.tape()?;

        let sizes: Vec<u64> = (0..tape.buffers.len())
            .map(|i| (tape.rows(BufferId(i)) * stride(tape.buffers[i].columns)) as u64 * 4)
            .collect();
        for (spec, &size) in tape.buffers.iter().zip(&sizes) {
            if size > device.binding_limit {
                return Err(Error::unsupported(format!(
                    "the activation {} needs {size} bytes, the device binds {}: use fewer rows a step",
                    spec.name, device.binding_limit
                )));
            }
        }
        let storage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let usage = storage | wgpu::BufferUsages::COPY_SRC;
        let activations = budget.buffers(device, "activations", usage, &sizes).await?;
        let step = budget
            .buffers(device, "step", storage, &[layout.len() as u64 * 4])
            .await?;
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let bytes = dispatches.len() as u64 * PARAMS_BYTES;
        let params = budget
            .buffers(device, "parameters", usage, &[bytes])
            .await?;
        let (Some(step), Some(params)) = (step.into_iter().next(), params.into_iter().next())
        else {
            return Err(Error::internal("a buffer was asked for"));
        };
        let logits = tape.max_outputs * stride(tape.buffers[tape.logits.0].columns) * 4;
        let staging = Staging::new(device, budget, logits as u64, STAGING_BUFFERS).await?;

        let mut prepared = Self {
            words: RefCell::new(vec![0; layout.len()]),
            tape,
            layout,
            step,
            activations,
            staging,
            tasks: Vec::with_capacity(dispatches.len()),
            _params: params,
        };
        for (i, dispatch) in dispatches.into_iter().enumerate() {
            let task = prepared
                .task(device, store, pipelines, tuner, i, dispatch)
                .await?;
            prepared.tasks.push(task);
        }
        Ok(prepared)
    }

    async fn task(
        &self,
        device: &Device,
        store: &Store,
        pipelines: &Pipelines,
        tuner: &Tuner,
        number: usize,
        dispatch: Dispatch,
    ) -> Result<Task> {
        let at = number as u64 * PARAMS_BYTES;
        let words: &[u8] = bytemuck::cast_slice(&dispatch.params);
        device.queue.write_buffer(&self._params, at, words);
        let uniform = wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &self._params,
                offset: at,
                size: wgpu::BufferSize::new(words.len().next_multiple_of(16) as u64),
            }),
        };
        let storage = dispatch
            .slots
            .iter()
            .map(|&(binding, slot)| wgpu::BindGroupEntry {
                binding,
                resource: self.buffer(store, slot).as_entire_binding(),
            });
        let entries: Vec<_> = std::iter::once(uniform).chain(storage).collect();
        let kernel = dispatch.classes[0].forms[0].variant.kernel;
        let layout = pipelines.bind_group_layout(device, kernel);
        let bind_group = device
            .guarded(kernel.name, || {
                device.device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(kernel.name),
                    layout: &layout,
                    entries: &entries,
                })
            })
            .await?;
        let most = match dispatch.rows {
            Rows::Tokens => self.tape.max_rows,
            Rows::Outputs => self.tape.max_outputs,
        };
        let mut classes = Vec::new();
        for class in dispatch.classes {
            if class.from <= most {
                let form = tuner
                    .choose(device, pipelines, &bind_group, &class, most)
                    .await?;
                let pipeline = pipelines.get(device, &form.variant).await?;
                classes.push((class.from, pipeline, form));
            }
        }
        Ok(Task {
            bind_group,
            rows: dispatch.rows,
            classes,
        })
    }

    fn buffer<'a>(&'a self, store: &'a Store, slot: Slot) -> &'a wgpu::Buffer {
        match slot {
            Slot::Step => &self.step,
            Slot::Activation(buffer) => &self.activations[buffer.0],
            Slot::Weights(buffer) => &store.weights[buffer],
            Slot::Keys(layer) => &store.cache[layer][0],
            Slot::Values(layer) => &store.cache[layer][1],
            Slot::Nothing => &store.nothing,
        }
    }

    /// Sends `step` to the device and returns how many bytes it took.
    pub fn upload(&self, device: &Device, step: &Step) -> u64 {
        let mut words = self.words.borrow_mut();
        self.layout.write(step, &mut words);
        let used = self.layout.tables() + step.tables.len() * self.layout.pages;
        let bytes: &[u8] = bytemuck::cast_slice(&words[..used]);
        device.queue.write_buffer(&self.step, 0, bytes);
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
            let Some((_, pipeline, form)) = class else {
                continue;
            };
            let (x, y) = grid(form.workgroups(rows), device.group_limit);
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &task.bind_group, &[]);
            pass.dispatch_workgroups(x, y, 1);
            count += 1;
        }
        count
    }
}

/// `groups` workgroups, or a few more, in two dimensions of at most `limit`.
pub(super) fn grid(groups: usize, limit: u32) -> (u32, u32) {
    let y = groups.div_ceil(limit as usize).max(1);
    (groups.div_ceil(y) as u32, y as u32)
}
