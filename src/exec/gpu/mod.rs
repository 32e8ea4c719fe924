//! The WebGPU executor: the only files that name wgpu.
