//! Kernels made ready to run: one pipeline for each kernel and choice of overrides.

use std::{cell::RefCell, collections::HashMap};

use super::{
    device::Device,
    kernels::{ENTRY, Kernel},
};
use crate::error::Result;

/// A kernel with values for its overrides.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub kernel: &'static Kernel,
    pub overrides: Vec<(&'static str, f64)>,
}

impl Variant {
    fn key(&self) -> (&'static str, Vec<(&'static str, u64)>) {
        let overrides = self.overrides.iter();
        (
            self.kernel.name,
            overrides
                .map(|&(name, value)| (name, value.to_bits()))
                .collect(),
        )
    }
}

type Key = (&'static str, Vec<(&'static str, u64)>);
type Shape = Vec<(u32, bool)>;

/// What has been compiled so far. Kernels with equal bindings share a layout, so that one bind group
/// serves every form of an operation.
#[derive(Default)]
pub(super) struct Pipelines {
    layouts: RefCell<HashMap<Shape, (wgpu::BindGroupLayout, wgpu::PipelineLayout)>>,
    modules: RefCell<HashMap<&'static str, wgpu::ShaderModule>>,
    pipelines: RefCell<HashMap<Key, wgpu::ComputePipeline>>,
}

impl Pipelines {
    /// The pipeline of `variant`, compiled if it is new.
    pub async fn get(&self, device: &Device, variant: &Variant) -> Result<wgpu::ComputePipeline> {
        if let Some(pipeline) = self.pipelines.borrow().get(&variant.key()) {
            return Ok(pipeline.clone());
        }
        let (_, layout) = self.layouts(device, variant.kernel);
        let pipeline = device
            .guarded(variant.kernel.name, || {
                let module = self.module(device, variant.kernel);
                device
                    .device
                    .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                        label: Some(variant.kernel.name),
                        layout: Some(&layout),
                        module: &module,
                        entry_point: Some(ENTRY),
                        compilation_options: wgpu::PipelineCompilationOptions {
                            constants: &variant.overrides,
                            ..Default::default()
                        },
                        cache: None,
                    })
            })
            .await?;
        self.pipelines
            .borrow_mut()
            .insert(variant.key(), pipeline.clone());
        Ok(pipeline)
    }

    /// The layout of the bind groups that `kernel` takes.
    pub fn bind_group_layout(&self, device: &Device, kernel: &Kernel) -> wgpu::BindGroupLayout {
        self.layouts(device, kernel).0
    }

    fn module(&self, device: &Device, kernel: &Kernel) -> wgpu::ShaderModule {
        let mut modules = self.modules.borrow_mut();
        let module = modules.entry(kernel.name).or_insert_with(|| {
            device
                .device
                .create_shader_module(wgpu::ShaderModuleDescriptor {
                    label: Some(kernel.name),
                    source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
                })
        });
        module.clone()
    }

    fn layouts(
        &self,
        device: &Device,
        kernel: &Kernel,
    ) -> (wgpu::BindGroupLayout, wgpu::PipelineLayout) {
        let shape: Shape = kernel
            .bindings
            .iter()
            .map(|b| (b.number, b.writes))
            .collect();
        let mut layouts = self.layouts.borrow_mut();
        let made = layouts.entry(shape).or_insert_with_key(|shape| {
            let uniform = (0, wgpu::BufferBindingType::Uniform);
            let storage = shape.iter().map(|&(number, writes)| {
                (
                    number,
                    wgpu::BufferBindingType::Storage { read_only: !writes },
                )
            });
            let entries: Vec<_> = std::iter::once(uniform)
                .chain(storage)
                .map(|(binding, ty)| wgpu::BindGroupLayoutEntry {
                    binding,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty,
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                })
                .collect();
            let group = device
                .device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                    label: Some(kernel.name),
                    entries: &entries,
                });
            let pipeline = device
                .device
                .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                    label: Some(kernel.name),
                    bind_group_layouts: &[Some(&group)],
                    immediate_size: 0,
                });
            (group, pipeline)
        });
        made.clone()
    }
}
