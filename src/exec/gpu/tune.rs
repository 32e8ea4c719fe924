//! Choosing between the ways to run an operation by measuring them on the adapter.
//!
//! Each format, shape and number of rows is measured once for each adapter, in a few milliseconds; the
//! verdicts live as long as the program. The choice changes how long a step takes and how it rounds, never what it computes.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use web_time::Instant;

use super::{
    binder::Binder,
    device::{Device, Forms},
    dispatch::{Alternative, Class, Operation},
    memory::Budget,
    readback::Staging,
};
use crate::{error::Result, tape::StepLayout};

/// What was measured in this program: by adapter, operation and rows, the winner and its note.
static VERDICTS: Mutex<Option<HashMap<String, (&'static str, String)>>> = Mutex::new(None);

/// Rows that a class of many rows is measured with.
const MANY_ROWS: usize = 64;
/// Positions that attention is measured over.
const POSITIONS: usize = 256;
/// Work is repeated until it takes this long, so that the clock and the way to the device do not matter.
const ENOUGH_SECONDS: f64 = 0.004;
/// The most repetitions.
const MOST: u32 = 256;

/// Chooses, and remembers why.
pub(super) struct Tuner {
    forms: Forms,
    notes: RefCell<BTreeMap<String, String>>,
}

impl Tuner {
    pub fn new(forms: Forms) -> Self {
        Self {
            forms,
            notes: RefCell::default(),
        }
    }

    /// What was chosen and why, a line each.
    pub fn notes(&self) -> Vec<String> {
        self.notes.borrow().values().cloned().collect()
    }

    /// Which classes of `operation` steps of `tape` with up to `most` rows need, and which alternative of
    /// each to take.
    pub async fn choose(
        &self,
        binder: &Binder<'_>,
        budget: &Budget,
        operation: &Operation,
        most: usize,
        layout: &StepLayout,
    ) -> Result<Vec<(usize, usize)>> {
        let mut chosen = Vec::new();
        for (i, class) in operation.classes.iter().enumerate() {
            if class.from > most {
                break;
            }
            let next = operation
                .classes
                .get(i + 1)
                .map_or(MANY_ROWS, |next| next.from - 1);
            let measurement = Measurement {
                binder,
                budget,
                layout,
                rows: next.min(most),
            };
            chosen.push((i, self.choose_one(class, &measurement).await?));
        }
        Ok(chosen)
    }

    async fn choose_one(&self, class: &Class, measurement: &Measurement<'_>) -> Result<usize> {
        let alternatives = &class.alternatives;
        let named = |name| alternatives.iter().position(|way| way.name == name);
        match self.forms {
            Forms::Named(name) => return Ok(named(name).unwrap_or(0)),
            Forms::Preferred => return Ok(0),
            Forms::Measured => {}
        }
        let device = measurement.binder.device;
        let fit: Vec<&Alternative> = alternatives.iter().filter(|way| way.promising).collect();
        if fit.len() < 2 {
            return Ok(named(fit.first().map_or("", |way| way.name)).unwrap_or(0));
        }
        let rows = measurement.rows;
        // Another opening of the adapter may have had others to choose from.
        let names: Vec<_> = fit.iter().map(|way| way.name).collect();
        let (about, names) = (&fit[0].about, names.join(", "));
        let key = format!("{}: {about}, {rows} rows, of {names}", device.name);
        let known = with_verdicts(|verdicts| verdicts.get(&key).cloned());
        let (winner, note) = match known {
            Some(known) => known,
            None => {
                let verdict = measurement.winner(&fit).await?;
                with_verdicts(|verdicts| verdicts.insert(key.clone(), verdict.clone()));
                verdict
            }
        };
        self.notes.borrow_mut().insert(key, note);
        Ok(named(winner).unwrap_or(0))
    }
}

fn with_verdicts<T>(f: impl FnOnce(&mut HashMap<String, (&'static str, String)>) -> T) -> T {
    let mut verdicts = VERDICTS.lock().unwrap_or_else(PoisonError::into_inner);
    f(verdicts.get_or_insert_with(HashMap::new))
}

/// How to measure one class of one operation.
struct Measurement<'a> {
    binder: &'a Binder<'a>,
    budget: &'a Budget,
    layout: &'a StepLayout,
    rows: usize,
}

impl Measurement<'_> {
    async fn winner(&self, ways: &[&Alternative]) -> Result<(&'static str, String)> {
        self.write_step();
        let mut times = Vec::with_capacity(ways.len());
        for way in ways {
            times.push((self.seconds(way).await?, way.name));
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let others = times[1..]
            .iter()
            .map(|(seconds, name)| format!("{name} {:.2} ms", seconds * 1e3));
        let note = format!(
            "{}, {} rows: {} ({:.2} ms; {})",
            ways[0].about,
            self.rows,
            times[0].1,
            times[0].0 * 1e3,
            others.collect::<Vec<_>>().join(", ")
        );
        Ok((times[0].1, note))
    }

    /// A step of as many rows and outputs, all at one position of a sequence on page 0.
    fn write_step(&self) {
        let mut words = vec![0; self.layout.len()];
        words[0] = self.rows as u32;
        words[1] = self.rows as u32;
        let allocation = &self.binder.store.allocation;
        let positions = (self.layout.pages * allocation.cache.page_size).clamp(1, POSITIONS);
        words[self.layout.positions()..][..self.rows.min(self.layout.rows)]
            .fill(positions as u32 - 1);
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        self.binder
            .device
            .queue
            .write_buffer(&self.binder.buffers.step, 0, bytes);
    }

    /// Seconds of one run, the better of two measurements.
    async fn seconds(&self, way: &Alternative) -> Result<f64> {
        let device = self.binder.device;
        let (bound, _params) = self.binder.probe(self.budget, way).await?;
        let done = Staging::new(device, self.budget, 16, 1).await?;
        let run = async |times: u32| -> Result<f64> {
            let start = Instant::now();
            let mut encoder = device.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                for dispatch in (0..times).flat_map(|_| &bound) {
                    dispatch.record(device, &mut pass, self.rows);
                }
            }
            wait(device, &done, encoder, &self.binder.store.nothing).await?;
            Ok(start.elapsed().as_secs_f64())
        };
        // The first run compiles.
        run(1).await?;
        let mut times = 1;
        let mut took = run(times).await?;
        while took < ENOUGH_SECONDS && times < MOST {
            times *= 4;
            took = run(times).await?;
        }
        Ok(took.min(run(times).await?) / f64::from(times))
    }
}

/// Submits `encoder` and waits for it, by reading a few bytes back.
async fn wait(
    device: &Device,
    staging: &Staging,
    mut encoder: wgpu::CommandEncoder,
    source: &wgpu::Buffer,
) -> Result<()> {
    let mut loan = staging.take(device)?;
    encoder.copy_buffer_to_buffer(source, 0, loan.buffer(), 0, 16);
    let submission = device.queue.submit([encoder.finish()]);
    loan.map(device, 16);
    loan.read(&device.handle(), submission, 16, |_| ()).await
}
