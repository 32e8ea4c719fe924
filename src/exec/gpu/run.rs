//! Runs: several steps in one submit, each of which evaluates the token that the one before chose.

use super::{Gpu, prepared, sample_words};
use crate::{
    error::{Error, Result},
    exec::{
        LocalFuture, TapeId,
        sample::{MOST_BEST, MOST_STEPS, Pick, Run},
    },
    tape::Step,
};

impl Gpu {
    /// Hands a run to the device; the result waits for its choices.
    pub(super) fn start_run(
        &self,
        tape: TapeId,
        step: &Step,
        run: &Run,
    ) -> Result<LocalFuture<'static, Result<Vec<Pick>>>> {
        self.device.health.check()?;
        let prepared = self.prepared(tape)?;
        let sampling = self.sampling.as_ref();
        let sampling =
            sampling.ok_or_else(|| Error::internal("choosing tokens was not prepared"))?;
        let page_size = self.store()?.allocation.cache.page_size;
        step.check(&prepared.tape, &prepared.layout, page_size)?;
        check_run(step, run, page_size, self.chosen.get())?;
        let mut uploaded = sampling.upload(&self.device, run)?;
        uploaded += prepared.upload(&self.device, step, run.resume);
        self.epoch.set(self.epoch.get() + 1);
        self.chosen.set(step.outputs.len());
        let mut encoder = self.encoder();
        let outputs = step.outputs.len();
        let (dispatches, mut ticks) = {
            let mut recorder = self.recorder(&mut encoder);
            for _ in 0..run.steps {
                prepared.record(&self.device, &mut recorder, step);
                let (device, sampler) = (&self.device, run.sampler);
                sampling.record(device, &mut recorder, tape.0, sampler, outputs);
            }
            recorder.finish(&self.device, &self.budget)?
        };
        self.count(|counters| {
            counters.forwards += run.steps as u64;
            counters.bytes_uploaded += uploaded;
            counters.dispatches += dispatches;
        });
        let size = run.sampler.result_bytes();
        let bytes = (run.steps * outputs * size) as u64;
        let (results, staging) = sampling.results();
        let mut loan = staging.take(&self.device)?;
        encoder.copy_buffer_to_buffer(results, 0, loan.buffer(), 0, bytes);
        let submission = self.submit(encoder);
        loan.map(&self.device, bytes);
        if let Some(ticks) = &mut ticks {
            ticks.map(&self.device);
        }
        // What waits holds nothing of the executor, which may be closed in the meantime.
        let (device, counters) = (self.device.handle(), self.counters.clone());
        Ok(Box::pin(async move {
            let picks = |bytes: &[u8]| sample_words::picks(bytes, size);
            let read = loan.read(&device, submission.clone(), bytes, picks);
            let found = read.await?;
            if let Some(ticks) = ticks {
                ticks.read(&device, submission).await?;
            }
            counters.update(|mut counters| {
                counters.bytes_read += bytes;
                counters
            });
            Ok(found)
        }))
    }
}

/// Fails unless `run` fits `step`: a row for each output, pages for every step, a sequence of its own for
/// each row that goes on, and, where it resumes a run, as many tokens as that left, which were `chosen`.
fn check_run(step: &Step, run: &Run, page_size: usize, chosen: usize) -> Result<()> {
    let outputs = step.outputs.len();
    let alone =
        prepared::alone(step) && step.outputs.iter().copied().eq(0..step.tokens.len() as u32);
    let last = step
        .positions
        .iter()
        .zip(&step.slots)
        .all(|(&position, &slot)| {
            (position as usize + run.steps.max(1) - 1) / page_size
                < step.tables[slot as usize].len()
        });
    let goes_on = run.steps > 1 || run.resume;
    let fits = (1..=MOST_STEPS).contains(&run.steps)
        && run.sampler.best <= MOST_BEST
        && (!goes_on || (alone && last))
        && (!run.resume || chosen == outputs);
    if fits && run.rows.len() == outputs && outputs > 0 {
        return Ok(());
    }
    let resumed = match run.resume {
        true => format!(", resumed after {chosen} tokens,"),
        false => String::new(),
    };
    Err(Error::internal(format!(
        "a run of {} steps for {} sequences{resumed} does not fit a step of {} rows and {outputs} outputs",
        run.steps,
        run.rows.len(),
        step.tokens.len(),
    )))
}
