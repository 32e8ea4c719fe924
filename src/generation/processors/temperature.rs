//! Temperature: `score / temperature`. Source: `TemperatureLogitsWarper`.

use super::{Args, Context, Processor, Scratch};
use crate::{
    exec::sample::{Change, Edit},
    generation::home::DeviceForm,
};

/// The least temperature by which scores of any model can be divided in single precision.
const LEAST_ON_DEVICE: f64 = 1e-3;

/// Sharpens the distribution (below 1) or flattens it (above 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    temperature: f64,
}

impl Temperature {
    /// `temperature` is above 0.
    pub fn new(temperature: f64) -> Self {
        Self { temperature }
    }
}

impl Processor for Temperature {
    fn name(&self) -> &'static str {
        "temperature"
    }

    fn args(&self) -> Args {
        vec![("temperature", self.temperature.into())]
    }

    fn device(&self) -> Option<DeviceForm> {
        // Smaller ones may overflow, which the host mends.
        let fits = self.temperature >= LEAST_ON_DEVICE;
        let change = Change::Temperature(self.temperature as f32);
        fits.then(|| DeviceForm::edit(Edit::always(change)))
    }

    fn process(&self, _: &Context, scores: &mut [f32], _: &mut Scratch) {
        let finite = scores.iter().copied().filter(|score| score.is_finite());
        let (least, greatest) = finite.fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), score| {
            (a.min(score), b.max(score))
        });
        let temperature = self.temperature as f32;
        if (least / temperature).is_finite() && (greatest / temperature).is_finite() {
            scores.iter_mut().for_each(|score| *score /= temperature);
            return;
        }
        // A quotient overflows, and infinite scores would hide which token is best. The distribution
        // does not change when all scores are shifted, so the best one becomes 0.
        for score in scores.iter_mut().filter(|score| score.is_finite()) {
            *score = ((f64::from(*score) - f64::from(greatest)) / self.temperature) as f32;
        }
    }
}
