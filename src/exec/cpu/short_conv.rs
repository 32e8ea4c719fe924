//! Short convolution, and what positions leave in the cache for it: an entry after another.

use half::f16;

use crate::{
    error::Result,
    exec::host::zeros,
    ops::{CacheSpec, CacheType, ShortConv},
    tape::Step,
};

/// What positions left in one layer.
pub struct Past {
    spec: CacheSpec,
    entries: Entries,
}

enum Entries {
    F32(Vec<f32>),
    /// Bits.
    F16(Vec<u16>),
}

impl Past {
    /// Room for a layer, filled with zeros.
    pub fn new(spec: CacheSpec) -> Result<Self> {
        let values = spec.pages * spec.page_size * spec.conv_width;
        let entries = match spec.dtype {
            CacheType::F32 => Entries::F32(zeros(values)?),
            CacheType::F16 => Entries::F16(zeros(values)?),
        };
        Ok(Self { spec, entries })
    }

    /// Copies a page.
    pub fn copy_page(&mut self, from: usize, to: usize) {
        let page = self.spec.page_size * self.spec.conv_width;
        let (range, to) = (from * page..(from + 1) * page, to * page);
        match &mut self.entries {
            Entries::F32(values) => values.copy_within(range, to),
            Entries::F16(values) => values.copy_within(range, to),
        }
    }

    /// Where the entry of `position` begins.
    fn entry(&self, table: &[u32], position: usize) -> usize {
        let page = table[position / self.spec.page_size] as usize;
        (page * self.spec.page_size + position % self.spec.page_size) * self.spec.conv_width
    }

    /// Calls `each` with every channel's value of the entry that begins at `entry`.
    fn read(&self, entry: usize, mut each: impl FnMut(usize, f32)) {
        let range = entry..entry + self.spec.conv_width;
        match &self.entries {
            Entries::F32(values) => {
                let values = values[range].iter().enumerate();
                values.for_each(|(channel, &value)| each(channel, value));
            }
            Entries::F16(values) => {
                let values = values[range].iter().enumerate();
                values.for_each(|(channel, &value)| each(channel, f16::from_bits(value).to_f32()));
            }
        }
    }
}

/// As [`crate::ops::short_conv::reference`], for all rows, in f32.
pub fn short_conv(
    op: &ShortConv,
    past: &mut Past,
    step: &Step,
    (weight, bias): (&[f32], Option<&[f32]>),
    x: &[f32],
    out: &mut [f32],
) {
    let (width, taps) = (past.spec.conv_width, op.taps);
    let place = |row: usize| {
        let table = &*step.tables[step.slots[row] as usize];
        (table, step.positions[row] as usize)
    };
    let rows = || x.chunks_exact(3 * width).enumerate();
    for (row, x) in rows() {
        let (table, position) = place(row);
        let range = past.entry(table, position)..;
        let gated = x[..width].iter().zip(&x[2 * width..]);
        let gated = gated.map(|(b, x)| b * x);
        match &mut past.entries {
            Entries::F32(values) => {
                let entry = values[range].iter_mut().zip(gated);
                entry.for_each(|(stored, value)| *stored = value);
            }
            Entries::F16(values) => {
                let entry = values[range].iter_mut().zip(gated);
                entry.for_each(|(stored, value)| *stored = f16::from_f32(value).to_bits());
            }
        }
    }
    for ((row, x), out) in rows().zip(out.chunks_exact_mut(width)) {
        let (table, position) = place(row);
        match bias {
            Some(bias) => out.copy_from_slice(bias),
            None => out.fill(0.0),
        }
        for back in 1..taps.min(position + 1) {
            past.read(past.entry(table, position - back), |channel, u| {
                out[channel] += weight[channel * taps + taps - 1 - back] * u;
            });
        }
        for (channel, out) in out.iter_mut().enumerate() {
            let own = x[channel] * x[2 * width + channel];
            *out = x[width + channel] * (*out + weight[channel * taps + taps - 1] * own);
        }
    }
}
