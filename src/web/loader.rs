//! Loading for JavaScript: which executor, and a file's bytes piece by piece.

use std::cell::RefCell;

use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use super::engine::{Engine, parse};
use crate::{
    error::{Error, ErrorKind, Result},
    exec::{
        Executor, Reference,
        gpu::{Gpu, GpuOptions},
    },
    load::{self, Description, LoadOptions},
    ops::CacheType,
};

/// Takes a file. An error ends the load.
#[wasm_bindgen]
pub struct Loader {
    /// Away while a piece is being taken, so that nothing is borrowed across the wait.
    inner: RefCell<Option<load::Loader>>,
    options: LoadOptions,
    /// What did not go as asked, for `info.notes`.
    notes: Vec<String>,
}

#[wasm_bindgen]
impl Loader {
    /// Opens the device. `options` is JSON with `device`, `contextLength` and `kvCache`, checked by the
    /// page; `file_size` is the file's length where that is known.
    pub async fn open(options: String, file_size: Option<f64>) -> Result<Loader> {
        let given = parse(&options)?;
        let options = LoadOptions {
            context_length: given["contextLength"]
                .as_u64()
                .map(|length| length as usize),
            kv_cache: match given["kvCache"].as_str() {
                Some("f16") => CacheType::F16,
                Some("f32") => CacheType::F32,
                other => return Err(Error::internal(format!("there is no cache type {other:?}"))),
            },
            quantise: None,
        };
        let mut notes = Vec::new();
        let executor = executor(&given["device"], &mut notes).await?;
        let loader = load::Loader::new(executor, options, file_size.map(|size| size as u64));
        Ok(Self {
            inner: RefCell::new(Some(loader)),
            options,
            notes,
        })
    }

    /// Takes the next bytes of the file, cut anywhere.
    pub async fn push(&self, bytes: Vec<u8>) -> Result<()> {
        let mut loader = self.take()?;
        loader.push(&bytes).await?;
        self.inner.replace(Some(loader));
        Ok(())
    }

    /// The file has ended: the model, ready to generate.
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
        let notes: Vec<_> = self.notes.iter().chain(&executor.notes).collect();
        Ok(json!({
            "name": model.name,
            "architecture": model.architecture,
            "parameters": model.parameters,
            "context_length": engine.model().context_length,
            "vocabulary": engine.model().vocabulary,
            "device": executor.device,
            "adapter": executor.adapter,
            "software": executor.software,
            "kv_cache": kv_cache,
            "weight_bytes": model.weight_bytes,
            "cache_bytes": engine.cache().bytes(),
            "notes": notes,
        }))
    }
}

/// The executor that `device` asks for; `"auto"` is the GPU where there is one that can run the kernels.
async fn executor(device: &Value, notes: &mut Vec<String>) -> Result<Box<dyn Executor>> {
    let error = match device.as_str() {
        Some("cpu") => return Ok(Box::new(Reference::new())),
        Some("auto" | "webgpu") => match Gpu::new(GpuOptions::default()).await {
            Ok(gpu) => return Ok(Box::new(gpu)),
            Err(error) => error,
        },
        other => return Err(Error::internal(format!("there is no device {other:?}"))),
    };
    if device == "webgpu" || *error.kind() != ErrorKind::Unsupported {
        return Err(error);
    }
    notes.push(format!("runs on the CPU, slowly: {error}"));
    Ok(Box::new(Reference::new()))
}
