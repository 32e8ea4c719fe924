//! What this machine can do, and how much of it each kernel, a model's steps and whole calls reach.
//!
//! Ceilings come first: bytes read and multiply-adds in a second, the cost of a dispatch and of a round trip.
//! Then kernels by format, and a model of random weights, each as a share of them; with a model's file, whole
//! calls of it. Times are the best of several runs, because whatever else a machine does only slows it down.

mod answers;
mod kernels;
mod machine;
mod report;
mod shape;
mod whole;

use std::{fs, path::PathBuf};

use decant::{exec::Activations, generation::Engine, tensor::DType};

use self::{answers::Calls, machine::Machine, report::Report, shape::SHAPES};
use crate::Outcome;

/// The parts of a bench, after the ceilings.
pub const SECTIONS: [&str; 5] = ["matrices", "attention", "norm", "model", "calls"];

/// What is measured.
pub struct Options {
    /// The CPU with these activations; the GPU if `None`.
    pub cpu: Option<Activations>,
    pub sections: Vec<String>,
    pub formats: Vec<DType>,
    /// The place of the shape among all.
    pub shape: usize,
    pub prefill: usize,
    pub decode: usize,
    pub batch: usize,
    pub json: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cpu: None,
            sections: SECTIONS.map(str::to_owned).into(),
            formats: DType::ALL.into(),
            shape: 0,
            prefill: 128,
            decode: 32,
            batch: 8,
            json: None,
        }
    }
}

/// The names of shapes.
pub fn shapes() -> Vec<&'static str> {
    SHAPES.iter().map(|shape| shape.name).collect()
}

/// Measures and prints; `load` makes the engine of the model that was named, if one was.
pub fn bench(options: &Options, load: Option<impl FnOnce() -> Outcome<Engine>>) -> Outcome<()> {
    let mut machine = match options.cpu {
        Some(activations) => Machine::cpu(activations),
        None => Machine::gpu()?,
    };
    let info = machine.executor().info();
    let ceilings = machine.ceilings()?;
    let mut report = Report::new(&info.adapter, &info.notes, ceilings);
    let wanted = |section: &str| options.sections.iter().any(|name| name == section);
    let shape = &SHAPES[options.shape];
    let (mut shares, mut attention) = (Vec::new(), None);
    if wanted("matrices") {
        shares = kernels::matrices(&mut machine, &mut report, shape, &options.formats)?;
    }
    if wanted("attention") {
        let contexts = [128, 512, 1024, 4096];
        let share = kernels::attention(&mut machine, &mut report, shape, &contexts)?;
        attention = Some(share);
    }
    if wanted("norm") {
        kernels::norm(&mut machine, &mut report, shape)?;
    }
    if let Some(attention) = attention.filter(|_| !shares.is_empty()) {
        whole::predict(&mut report, &shares, attention);
    }
    if wanted("model") {
        // What most files of this size are: 4 bits, and 8.
        for dtype in [DType::Q4_0, DType::Q8_0] {
            if options.formats.contains(&dtype) {
                whole::whole(&mut machine, &mut report, shape, dtype, options.batch)?;
            }
        }
    }
    drop(machine);
    if let Some(load) = load.filter(|_| wanted("calls")) {
        let calls = Calls {
            prefill: options.prefill,
            decode: options.decode,
            batch: options.batch,
        };
        answers::answers(&mut report, &load()?, &calls)?;
    }
    if let Some(path) = &options.json {
        fs::write(path, format!("{:#}\n", report.json()))?;
    }
    Ok(())
}
