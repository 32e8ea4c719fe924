//! Loading for JavaScript: which executor, and the files' bytes piece by piece.

use std::cell::RefCell;

use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use super::{
    crew::Threads,
    engine::{Engine, parse},
};
use crate::{
    error::{Error, ErrorKind, Result},
    exec::{
        Activations, Cpu, Executor,
        gpu::{Gpu, GpuOptions},
    },
    load::{self, CheckpointFiles, Description, LoadOptions},
    ops::CacheType,
    tensor::DType,
};

/// Takes a model's files. An error ends the load.
#[wasm_bindgen]
pub struct Loader {
    /// Away while a piece is being taken, so that nothing is borrowed across the wait.
    inner: RefCell<Option<load::Loader>>,
    options: LoadOptions,
    /// What the place of the model calls it.
    name: String,
    /// Why the model runs where it does.
    reason: String,
    /// Why the CPU uses one thread, where nobody has asked for that.
    alone: Option<String>,
}

/// Fails if a checkpoint with this `config.json` is not supported, before anything else is fetched.
#[wasm_bindgen]
pub fn check_config(config: Vec<u8>) -> Result<()> {
    load::check_config(&config)
}

#[wasm_bindgen]
impl Loader {
    /// Opens the device for a GGUF model in `files` files. `options` is JSON with the load options and
    /// `name`, checked by the page; `threads` are those that the CPU is to use, if there are to be several.
    pub async fn gguf(options: String, files: usize, threads: Option<Threads>) -> Result<Loader> {
        Self::open(&options, threads, |executor, options| {
            Ok(load::Loader::gguf(executor, options, files))
        })
        .await
    }

    /// Opens the device for a checkpoint; these are its files but for the weights.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a file, and may be missing"
    )]
    pub async fn checkpoint(
        options: String,
        threads: Option<Threads>,
        config: Vec<u8>,
        tokenizer: Vec<u8>,
        tokenizer_config: Option<Vec<u8>>,
        chat_template: Option<Vec<u8>>,
        generation_config: Option<Vec<u8>>,
        index: Option<Vec<u8>>,
    ) -> Result<Loader> {
        let files = CheckpointFiles {
            config: &config,
            tokenizer: &tokenizer,
            tokenizer_config: tokenizer_config.as_deref(),
            chat_template: chat_template.as_deref(),
            generation_config: generation_config.as_deref(),
            index: index.as_deref(),
        };
        Self::open(&options, threads, |executor, options| {
            load::Loader::checkpoint(executor, options, &files)
        })
        .await
    }

    async fn open(
        given: &str,
        threads: Option<Threads>,
        make: impl FnOnce(Box<dyn Executor>, LoadOptions) -> Result<load::Loader>,
    ) -> Result<Self> {
        let given = parse(given)?;
        let options = LoadOptions {
            context_length: given["contextLength"]
                .as_u64()
                .map(|length| length as usize),
            kv_cache: match given["kvCache"].as_str() {
                Some("f16") => CacheType::F16,
                Some("f32") => CacheType::F32,
                other => return Err(Error::internal(format!("there is no cache type {other:?}"))),
            },
            quantise: match given["quantize"].as_str() {
                None => None,
                Some("q8_0") => Some(DType::Q8_0),
                Some("q4_0") => Some(DType::Q4_0),
                other => return Err(Error::internal(format!("there is no format {other:?}"))),
            },
        };
        let activations = match given["activations"].as_str() {
            Some("q8_0") => Activations::Q8,
            Some("q16_0") => Activations::Q16,
            Some("f32") => Activations::F32,
            other => {
                return Err(Error::internal(format!(
                    "there are no activations {other:?}"
                )));
            }
        };
        let (executor, reason) = executor(&given["device"], activations, threads).await?;
        Ok(Self {
            inner: RefCell::new(Some(make(executor, options)?)),
            options,
            name: given["name"].as_str().unwrap_or_default().to_owned(),
            reason,
            alone: given["alone"].as_str().map(str::to_owned),
        })
    }

    /// The names of a checkpoint's weight files, a list in JSON.
    pub fn files(&self) -> Result<String> {
        let loader = self.take()?;
        let files = json!(loader.files());
        self.inner.replace(Some(loader));
        Ok(files.to_string())
    }

    /// The next bytes are the first of a file, by its place in the list; `size` is its length where that is
    /// known.
    pub fn begin(&self, file: usize, size: Option<f64>) -> Result<()> {
        let mut loader = self.take()?;
        loader.begin(file, size.map(|size| size as u64))?;
        self.inner.replace(Some(loader));
        Ok(())
    }

    /// Takes the next bytes of the file, cut anywhere; whether more of it is wanted now.
    pub async fn push(&self, bytes: Vec<u8>) -> Result<bool> {
        let mut loader = self.take()?;
        let more = loader.push(&bytes).await?;
        self.inner.replace(Some(loader));
        Ok(more)
    }

    /// The files have ended: the model, ready to generate.
    pub async fn finish(&self) -> Result<Engine> {
        let loader = self.take()?;
        let description = loader.description();
        let engine = loader.finish().await?;
        let description = description.ok_or_else(|| Error::internal("a model without a header"))?;
        let info = self.info(&engine, description)?;
        Ok(Engine::new(engine, info))
    }

    fn take(&self) -> Result<load::Loader> {
        let loader = self.inner.take();
        loader.ok_or_else(|| Error::internal("a piece is being taken, or the load is over"))
    }

    fn info(&self, engine: &crate::generation::Engine, model: Description) -> Result<Value> {
        let executor = engine.executor_info()?;
        let kv_cache = match self.options.kv_cache {
            CacheType::F32 => "f32",
            CacheType::F16 => "f16",
        };
        let alone = self.alone.iter().filter(|_| executor.threads.is_some());
        let notes = model.quantised.iter().chain(&executor.notes).chain(alone);
        let notes: Vec<_> = notes.collect();
        let name = if self.name.is_empty() {
            &model.name
        } else {
            &self.name
        };
        Ok(json!({
            "name": name,
            "architecture": model.architecture,
            "parameters": model.parameters,
            "context_length": engine.model().context_length,
            "vocabulary": engine.model().vocabulary,
            "device": executor.device,
            "adapter": executor.adapter,
            "software": executor.software,
            "threads": executor.threads,
            "reason": self.reason,
            "kv_cache": kv_cache,
            "weight_bytes": model.weight_bytes,
            "cache_bytes": engine.cache().bytes(),
            "notes": notes,
        }))
    }
}

/// The executor that `device` asks for, and why it is that one; `"auto"` is the GPU where there is one that
/// can run the kernels and is not a program on the CPU, which the CPU itself outruns.
async fn executor(
    device: &Value,
    activations: Activations,
    threads: Option<Threads>,
) -> Result<(Box<dyn Executor>, String)> {
    let (executor, reason) = gpu(device).await?;
    let executor = match (executor, threads) {
        (Some(gpu), _) => gpu,
        (None, None) => Box::new(Cpu::new(activations)),
        (None, Some(threads)) => {
            let crew = Box::new(threads.hire().await?);
            Box::new(Cpu::with_crew(activations, crew))
        }
    };
    Ok((executor, reason))
}

/// The GPU if it is to be that, and why or why not.
async fn gpu(device: &Value) -> Result<(Option<Box<dyn Executor>>, String)> {
    match device.as_str() {
        Some("cpu") => Ok((None, "the option device asks for the CPU".into())),
        Some("webgpu") => {
            let gpu = Box::new(Gpu::new(GpuOptions::default()).await?);
            Ok((Some(gpu), "the option device asks for WebGPU".into()))
        }
        Some("auto") => match Gpu::new(GpuOptions::default()).await {
            Ok(gpu) if gpu.info().software => {
                let adapter = gpu.info().adapter;
                let reason = format!("the WebGPU adapter ({adapter}) is a program on the CPU");
                Ok((None, reason))
            }
            Ok(gpu) => Ok((Some(Box::new(gpu)), "there is a WebGPU adapter".into())),
            Err(error) if *error.kind() == ErrorKind::Unsupported => Ok((None, error.to_string())),
            Err(error) => Err(error),
        },
        other => Err(Error::internal(format!("there is no device {other:?}"))),
    }
}
