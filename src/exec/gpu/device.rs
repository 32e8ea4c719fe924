//! The adapter and device: what is asked for, what is refused, and what happens when it is gone.

use std::sync::{Arc, Mutex};

use super::forms::Adapter;
use crate::error::{Error, ErrorKind, Result};

/// What an executor may use of the adapter. Everything left out is chosen by the adapter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// The most bytes of one binding, below the adapter's own limit. Weights are split to fit.
    pub binding_limit: Option<u64>,
    /// The most workgroups in one dimension, below the adapter's own limit.
    pub group_limit: Option<u32>,
    /// The most bytes of all buffers together. Going above it is `OutOfMemory`.
    pub memory_limit: Option<u64>,
    /// How a kernel is chosen where several fit.
    pub forms: Forms,
    /// Runs every operation by itself, so that every activation can be read.
    pub separate: bool,
    /// Uses no optional feature of the adapter.
    pub plain: bool,
    /// Runs on a software adapter what is meant for a GPU: slowly, so that it can be tested without one.
    pub as_gpu: bool,
}

/// How a kernel is chosen where several fit. The results differ only by rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forms {
    /// By a short measurement on the adapter.
    #[default]
    Measured,
    /// What suits most machines of the adapter's kind, without measuring.
    Preferred,
    /// The kernel of this stem, such as `matmul_tile`, wherever it fits.
    Named(&'static str),
}

/// An open device and what is known about it.
pub(super) struct Device {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    /// The adapter's own words.
    pub name: String,
    pub adapter: Adapter,
    /// The most bytes of one binding, a multiple of 256.
    pub binding_limit: u64,
    /// The most workgroups in one dimension of a dispatch.
    pub group_limit: u32,
    /// Whether the device can tell when a pass begins and ends.
    pub timestamps: bool,
    pub health: Health,
}

/// What every kernel may count on: the default limits of WebGPU, as far as kernels use them.
const STORAGE_BUFFERS: u32 = 8;
const INVOCATIONS: u32 = 256;
const WORKGROUP_BYTES: u32 = 16 << 10;

/// What is used of the adapter where it is there.
const OPTIONAL_FEATURES: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::SUBGROUP);

impl Device {
    /// Opens the adapter that the platform thinks is fastest.
    ///
    /// Fails with `Unsupported` where there is no adapter, or one below the limits that the kernels
    /// need; no optional feature is needed.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        let instance = wgpu::Instance::default();
        let wanted = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        let adapter = instance.request_adapter(&wanted).await.map_err(|_| {
            Error::unsupported("there is no WebGPU adapter: the browser or driver offers none")
        })?;
        let limits = wanted_limits(&adapter.limits());
        check_limits(&limits)?;
        let features = match options.plain {
            true => wgpu::Features::empty(),
            false => adapter.features() & OPTIONAL_FEATURES,
        };
        let descriptor = wgpu::DeviceDescriptor {
            required_features: features,
            required_limits: limits.clone(),
            ..Default::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| {
            Error::unsupported(format!("the adapter gave no WebGPU device: {error}"))
        })?;
        let health = Health::watch(&device);
        let info = adapter.get_info();
        let own_limit = limits
            .max_storage_buffer_binding_size
            .min(limits.max_buffer_size);
        let binding_limit = options.binding_limit.unwrap_or(u64::MAX).min(own_limit);
        let subgroups = features.contains(wgpu::Features::SUBGROUP) && whole_subgroups(&info);
        let adapter = match options.as_gpu {
            true => Adapter {
                software: false,
                lanes: GPU_LANES,
                subgroups: false,
            },
            false => Adapter {
                software: is_software(&info),
                lanes: lanes(&info),
                subgroups,
            },
        };
        Ok(Self {
            adapter,
            name: describe(&info),
            binding_limit: binding_limit / 256 * 256,
            group_limit: options
                .group_limit
                .unwrap_or(u32::MAX)
                .clamp(1, limits.max_compute_workgroups_per_dimension),
            timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
            device,
            queue,
            health,
        })
    }

    /// What waiting needs.
    pub fn handle(&self) -> Handle {
        Handle {
            device: self.device.clone(),
            health: self.health.clone(),
        }
    }

    /// Runs `make` and reports what the device says about it, instead of going on with broken objects.
    ///
    /// On the web the device answers later, so this is the only safe way to make buffers.
    pub async fn guarded<T>(&self, what: &str, make: impl FnOnce() -> T) -> Result<T> {
        self.health.check()?;
        let scopes = [
            wgpu::ErrorFilter::Internal,
            wgpu::ErrorFilter::Validation,
            wgpu::ErrorFilter::OutOfMemory,
        ]
        .map(|filter| self.device.push_error_scope(filter));
        let made = make();
        let mut found = Vec::new();
        for scope in scopes.into_iter().rev() {
            found.push(scope.pop());
        }
        for error in found {
            if let Some(error) = error.await {
                return Err(describe_error(what, &error));
            }
        }
        self.health.check()?;
        Ok(made)
    }
}

/// What waiting for a device needs, which does not keep it from being destroyed.
#[derive(Clone)]
pub(super) struct Handle {
    pub device: wgpu::Device,
    pub health: Health,
}

impl Drop for Device {
    /// Frees the memory now, not when a garbage collector finds the last handle.
    fn drop(&mut self) {
        self.device.destroy();
    }
}

/// What went wrong with the device, once something has.
#[derive(Clone)]
pub(super) struct Health(Arc<Mutex<Option<Error>>>);

impl Health {
    fn watch(device: &wgpu::Device) -> Self {
        let health = Self(Arc::default());
        let lost = health.clone();
        device.set_device_lost_callback(move |_, message| lost.lose(&message));
        let uncaptured = health.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            uncaptured.fail(describe_error("running a step", &error));
        }));
        health
    }

    /// Fails for ever after the first failure.
    pub fn check(&self) -> Result<()> {
        match &*self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
        {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Notes that the device is gone.
    pub fn lose(&self, why: &str) {
        let message = format!("the device was lost ({why}): load the model again");
        self.fail(Error::new(ErrorKind::DeviceLost, message));
    }

    /// The first failure is the cause and is kept.
    fn fail(&self, error: Error) {
        let mut state = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        state.get_or_insert(error);
    }
}

fn describe_error(what: &str, error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => Error::new(
            ErrorKind::OutOfMemory,
            format!("the device has not enough memory ({what}): choose a smaller model or context"),
        ),
        other => Error::internal(format!("{what}: {other}")),
    }
}

/// WebGPU's defaults, less where the adapter has less, and its own sizes for bindings and buffers.
fn wanted_limits(adapter: &wgpu::Limits) -> wgpu::Limits {
    wgpu::Limits {
        max_storage_buffer_binding_size: adapter.max_storage_buffer_binding_size,
        max_buffer_size: adapter.max_buffer_size,
        ..wgpu::Limits::default().or_worse_values_from(adapter)
    }
}

fn check_limits(limits: &wgpu::Limits) -> Result<()> {
    let needed = [
        (
            "storage buffers in a shader",
            limits.max_storage_buffers_per_shader_stage,
            STORAGE_BUFFERS,
        ),
        (
            "invocations in a workgroup",
            limits.max_compute_invocations_per_workgroup,
            INVOCATIONS,
        ),
        (
            "bytes of workgroup memory",
            limits.max_compute_workgroup_storage_size,
            WORKGROUP_BYTES,
        ),
    ];
    for (what, found, needed) in needed {
        if found < needed {
            return Err(Error::unsupported(format!(
                "the adapter offers {found} {what}, the kernels need {needed}"
            )));
        }
    }
    Ok(())
}

fn is_software(info: &wgpu::AdapterInfo) -> bool {
    let name = info.name.to_lowercase();
    info.device_type == wgpu::DeviceType::Cpu
        || ["swiftshader", "llvmpipe", "lavapipe", "basic render"]
            .iter()
            .any(|known| name.contains(known))
}

/// Invocations of a workgroup without barriers on a GPU that does not say how many it runs side by side.
const GPU_LANES: usize = 64;

/// Invocations that the adapter runs side by side, where kernels without barriers are concerned: the
/// width of its vectors for a program on the CPU.
fn lanes(info: &wgpu::AdapterInfo) -> usize {
    match info.subgroup_max_size {
        width @ 4..=64 => width as usize,
        _ if is_software(info) => 4,
        _ => GPU_LANES,
    }
}

/// Whether a workgroup of [`lanes`] invocations is made of whole subgroups of eight or more.
fn whole_subgroups(info: &wgpu::AdapterInfo) -> bool {
    info.subgroup_min_size >= 8 && info.subgroup_max_size as usize == lanes(info)
}

fn describe(info: &wgpu::AdapterInfo) -> String {
    let parts = [&*info.name, &*info.driver, info.backend.to_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_only_for_what_the_adapter_has() {
        let adapter = wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 30,
            max_bind_groups: 2,
            ..Default::default()
        };
        let wanted = wanted_limits(&adapter);
        assert_eq!(wanted.max_storage_buffer_binding_size, 1 << 30);
        assert_eq!(wanted.max_bind_groups, 2);
        assert!(wanted.check_limits(&adapter));
        assert!(check_limits(&wanted).is_ok());
    }

    #[test]
    fn refuses_an_adapter_below_the_kernels_needs() {
        let limits = wgpu::Limits {
            max_compute_invocations_per_workgroup: 128,
            ..Default::default()
        };
        let error = check_limits(&limits).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Unsupported);
        assert!(error.to_string().contains("128 invocations"), "{error}");
    }
}
