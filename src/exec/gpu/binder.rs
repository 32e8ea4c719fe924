//! Dispatches joined with pipelines and buffers, once.

use super::{
    device::Device,
    dispatch::{Alternative, Dispatch, Grid, Operation, Slot},
    memory::{Budget, Buffer},
    pipelines::Pipelines,
    prepared::{Buffers, Task},
    sampling::SamplingBuffers,
    store::Store,
};
use crate::error::{Error, Result};

/// A dispatch with everything bound.
pub(super) struct Bound {
    name: &'static str,
    pipeline: wgpu::ComputePipeline,
    bind_group: wgpu::BindGroup,
    grid: Grid,
}

/// Parameters of dispatches stand at multiples of this many bytes, the largest alignment WebGPU asks for.
const PARAMS_BYTES: u64 = 256;

impl Bound {
    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Records this dispatch for `rows` rows.
    pub fn record(&self, device: &Device, pass: &mut wgpu::ComputePass, rows: usize) {
        let (x, y) = self.grid.workgroups(rows, device.group_limit);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.dispatch_workgroups(x, y, 1);
    }
}

/// Joins dispatches with pipelines and buffers.
#[derive(Clone, Copy)]
pub(super) struct Binder<'a> {
    pub device: &'a Device,
    pub store: &'a Store,
    pub pipelines: &'a Pipelines,
    pub buffers: &'a Buffers,
    pub sampling: Option<&'a SamplingBuffers>,
}

impl Binder<'_> {
    /// Binds what is measured of one way to run an operation; the buffer holds its parameters.
    pub async fn probe(
        &self,
        budget: &Budget,
        alternative: &Alternative,
    ) -> Result<(Vec<Bound>, Buffer)> {
        let dispatches: Vec<_> = alternative.probe.iter().collect();
        self.dispatches(budget, &dispatches).await
    }

    /// Binds the chosen alternative of each class of each operation.
    pub async fn bind(
        &self,
        budget: &Budget,
        operations: &[&Operation],
        chosen: &[Vec<(usize, usize)>],
    ) -> Result<(Vec<Task>, Buffer)> {
        let ways = |(operation, chosen): (&&Operation, &Vec<(usize, usize)>)| {
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

    /// Binds `dispatches`; the buffer holds their parameters.
    pub async fn dispatches(
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
            let bound = numbered.map(|(i, (pipeline, dispatch))| {
                Ok(Bound {
                    name: dispatch.variant.kernel.name,
                    pipeline,
                    bind_group: self.bind_group(&params, i as u64 * PARAMS_BYTES, dispatch)?,
                    grid: dispatch.grid,
                })
            });
            bound.collect::<Result<_>>()
        });
        Ok((bound.await??, params))
    }

    fn bind_group(&self, params: &Buffer, at: u64, dispatch: &Dispatch) -> Result<wgpu::BindGroup> {
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
        let storage = storage.map(|&(binding, slot)| {
            Ok(wgpu::BindGroupEntry {
                binding,
                resource: self.buffer(slot)?.as_entire_binding(),
            })
        });
        let entries = std::iter::once(Ok(uniform)).chain(storage);
        let entries: Vec<_> = entries.collect::<Result<_>>()?;
        let layout = self.pipelines.bind_group_layout(self.device, kernel);
        let descriptor = wgpu::BindGroupDescriptor {
            label: Some(kernel.name),
            layout: &layout,
            entries: &entries,
        };
        Ok(self.device.device.create_bind_group(&descriptor))
    }

    fn buffer(&self, slot: Slot) -> Result<&wgpu::Buffer> {
        Ok(match slot {
            Slot::Step => &self.buffers.step,
            Slot::Activation(buffer) => &self.buffers.activations[buffer.0],
            Slot::Weights(buffer) => &self.store.weights[buffer],
            Slot::Keys(layer) => &self.store.cache[layer][0],
            Slot::Values(layer) => &self.store.cache[layer][1],
            Slot::Past(layer) => &self.store.pasts[layer],
            Slot::Scratch => &self.buffers.scratch,
            Slot::Joined => &self.buffers.joined,
            Slot::Sampling(part) => match self.sampling {
                Some(sampling) => sampling.of(part),
                None => return Err(Error::internal("a tape chooses no tokens by itself")),
            },
            Slot::Nothing => &self.store.nothing,
        })
    }
}
