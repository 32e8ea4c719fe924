//! A weight in memory: in octets of rows, and as plain numbers where it is a vector.

use super::{
    crew::Share,
    formats::{
        BLOCK, Eights, Fives, Layout, Nibbles, Quants, ROWS, Sixes, Table, interleave, layout,
    },
    simd::{self, F32x4, store8},
};
use crate::{
    error::{Error, Result},
    exec::host::zeros,
    tensor::{DType, WeightSpec, dequantise},
};

/// Columns that are turned into numbers at a time: enough to use them from the nearest cache.
pub const PANEL: usize = 8 * BLOCK;

/// Columns of an octet as numbers: for each column the eight rows'.
pub type Panel = [[f32; ROWS]; PANEL];

/// A weight's values and how they lie in memory.
pub struct Weight {
    spec: WeightSpec,
    form: Form,
    /// Whose part it is.
    share: Share,
    /// In how many groups its rows are divided, 0 if each thread has all.
    groups: usize,
    /// For each octet its place among those that are held, of a weight that is not held whole.
    places: Option<Vec<u32>>,
    /// Plain numbers, or scales and minima.
    values: Vec<f32>,
    /// Everything else.
    bytes: Vec<u8>,
    /// Whether there is a half that is not finite: others are turned into numbers faster.
    special: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One row, as numbers.
    Vector,
    Octets(Layout),
}

impl Weight {
    /// Room for a weight, or for a thread's `share` of each of `groups` groups of its rows; filled with zeros.
    pub fn new(spec: WeightSpec, groups: usize, share: Share) -> Result<Self> {
        let divided = share.count > 1 && groups > 0 && spec.rows > 1;
        let places = divided.then(|| places(&spec, groups, share));
        let held = match &places {
            Some(places) => places.iter().filter(|&&place| place != ABSENT).count(),
            None => spec.rows.div_ceil(ROWS),
        };
        let octets = held * (spec.columns / spec.dtype.block_len());
        let layout = layout(spec.dtype);
        let (form, values, bytes) = match spec.rows {
            1 => (Form::Vector, spec.columns, 0),
            _ => (
                Form::Octets(layout),
                octets * layout.values,
                octets * layout.bytes,
            ),
        };
        Ok(Self {
            values: zeros(values)?,
            bytes: zeros(bytes)?,
            groups: if divided { groups } else { 0 },
            special: false,
            spec,
            form,
            share,
            places,
        })
    }

    /// The thread that has row `row`; none if all have it.
    pub fn owner(&self, row: usize) -> Option<usize> {
        let rows = self.spec.rows.checked_div(self.groups)?;
        Some(self.share.owner(row % rows, rows, ROWS))
    }

    /// The place of an octet that is held.
    #[inline(always)]
    fn place(&self, octet: usize) -> usize {
        match &self.places {
            Some(places) => places[octet] as usize,
            None => octet,
        }
    }

    /// Name, format and shape.
    pub fn spec(&self) -> &WeightSpec {
        &self.spec
    }

    /// Whether it is stored in a form that quantised activations can meet.
    pub fn is_quantised(&self) -> bool {
        matches!(self.form, Form::Octets(_)) && self.spec.dtype.block_len() > 1
    }

    /// Whether it meets activations of 8 bits where those are wanted: nibbles gain by it.
    pub fn meets_eights(&self) -> bool {
        let nibbles = matches!(self.spec.dtype, DType::Q4_0 | DType::Q4_1 | DType::Q4_K);
        self.is_quantised() && nibbles
    }

    /// Takes whole blocks as in a file, from number `first` on; of those that are others' nothing is kept.
    pub fn write(&mut self, first: usize, blocks: &[u8]) -> Result<()> {
        let (dtype, columns) = (self.spec.dtype, self.spec.columns);
        let (len, size) = (dtype.block_len(), dtype.block_bytes());
        if first + blocks.len() / size > self.spec.blocks() {
            let message = "more data than the tensor holds";
            return Err(Error::weights(&self.spec.name, message));
        }
        match self.form {
            Form::Vector => {
                let values = &mut self.values[first * len..][..blocks.len() / size * len];
                dequantise(dtype, blocks, values);
            }
            Form::Octets(Layout { values, bytes }) => {
                self.special |= dtype == DType::F16 && blocks.chunks_exact(2).any(is_special);
                let in_row = columns / len;
                for (i, block) in blocks.chunks_exact(size).enumerate() {
                    let (row, at) = ((first + i) / in_row, (first + i) % in_row);
                    let octet = self.place(row / ROWS);
                    if octet == ABSENT as usize {
                        continue;
                    }
                    let place = octet * in_row + at;
                    interleave(
                        dtype,
                        block,
                        row % ROWS,
                        &mut self.values[place * values..][..values],
                        &mut self.bytes[place * bytes..][..bytes],
                    );
                }
            }
        }
        Ok(())
    }

    /// The numbers of a vector; nothing for a matrix.
    pub fn vector(&self) -> &[f32] {
        match self.form {
            Form::Vector => &self.values,
            _ => &[],
        }
    }

    /// Writes the numbers of one row to `out`.
    pub fn row(&self, row: usize, panel: &mut Panel, out: &mut [f32]) {
        match self.form {
            Form::Vector => out.copy_from_slice(&self.values),
            Form::Octets(_) => {
                for (n, out) in out.chunks_mut(PANEL).enumerate() {
                    let columns = self.panel(row / ROWS, n * PANEL, out.len(), panel);
                    for (out, column) in out.iter_mut().zip(columns) {
                        *out = column[row % ROWS];
                    }
                }
            }
        }
    }

    /// `count` columns of an octet from `first` on, as numbers: where they are, or in `panel`. Rows that the
    /// matrix does not have are zeros.
    pub fn panel<'a>(
        &'a self,
        octet: usize,
        first: usize,
        count: usize,
        panel: &'a mut Panel,
    ) -> &'a [[f32; ROWS]] {
        let in_row = self.spec.columns / self.spec.dtype.block_len();
        match self.form {
            Form::Vector => {
                let columns = &self.values[first..first + count];
                for (column, &value) in panel.iter_mut().zip(columns) {
                    *column = [0.0; ROWS];
                    column[0] = value;
                }
            }
            Form::Octets(_) => match self.spec.dtype {
                DType::F32 => {
                    let (values, _) = self.values.as_chunks();
                    return &values[self.place(octet) * in_row + first..][..count];
                }
                DType::F16 if self.special => {
                    self.halves(octet, first, count, simd::halves, panel);
                }
                DType::F16 => self.halves(octet, first, count, simd::finite_halves, panel),
                DType::BF16 => self.halves(octet, first, count, simd::brain_halves, panel),
                DType::Q8_0 => self.unpack::<Eights, 256>(octet, first, count, panel),
                DType::Q4_0 => self.unpack::<Nibbles<8, false, 1>, 128>(octet, first, count, panel),
                DType::Q4_1 | DType::Q4_K => {
                    self.unpack::<Nibbles<0, true, 1>, 128>(octet, first, count, panel);
                }
                DType::Q2_K | DType::Q3_K => {
                    self.unpack::<Nibbles<0, true, 2>, 128>(octet, first, count, panel);
                }
                DType::IQ4_NL | DType::IQ4_XS => {
                    self.unpack::<Table, 128>(octet, first, count, panel);
                }
                DType::Q5_0 | DType::Q5_1 | DType::Q5_K | DType::MXFP4 => {
                    self.unpack::<Fives, 160>(octet, first, count, panel);
                }
                DType::Q6_K => self.unpack::<Sixes, 192>(octet, first, count, panel),
            },
        }
        &panel[..count]
    }

    /// The blocks of an octet with their scales, or scales and minima: of `F`, a format of [`Form::Octets`].
    #[inline(always)]
    pub fn blocks<F: Quants<N>, const N: usize>(
        &self,
        octet: usize,
    ) -> impl Iterator<Item = (&[u8; N], &[[f32; ROWS]])> {
        let octet = self.place(octet);
        let in_row = self.spec.columns / BLOCK;
        let scales = F::SCALES * if F::MINIMA { 2 } else { 1 };
        let (bytes, _) = self.bytes.as_chunks::<N>();
        let (values, _) = self.values.as_chunks::<ROWS>();
        let values = &values[octet * in_row * scales..][..in_row * scales];
        bytes[octet * in_row..][..in_row]
            .iter()
            .zip(values.chunks_exact(scales))
    }

    fn halves(
        &self,
        octet: usize,
        first: usize,
        count: usize,
        widen: impl Fn(&[u8; 16]) -> [F32x4; 2],
        panel: &mut Panel,
    ) {
        let (columns, _) = self.bytes.as_chunks();
        let columns = &columns[self.place(octet) * self.spec.columns + first..][..count];
        for (out, column) in panel.iter_mut().zip(columns) {
            store8(widen(column), out);
        }
    }

    fn unpack<F: Quants<N>, const N: usize>(
        &self,
        octet: usize,
        first: usize,
        count: usize,
        panel: &mut Panel,
    ) {
        let blocks = self.blocks::<F, N>(octet).skip(first / BLOCK);
        let (panels, _) = panel[..count].as_chunks_mut::<BLOCK>();
        let offset = F32x4::splat(F::OFFSET as f32);
        for (panel, (quants, scales)) in panels.iter_mut().zip(blocks) {
            let (scales, minima) = scales.split_at(F::SCALES);
            for q in 0..4 {
                for (half, rows) in F::quads(quants, q).into_iter().enumerate() {
                    let part = half % F::SCALES;
                    let scale = simd::load8(&scales[part]);
                    let minimum = minima.get(part).map(simd::load8);
                    for at in 0..4 {
                        let mut values = [0, 1].map(|part| {
                            (rows[part].every_fourth(at).to_f32() - offset) * scale[part]
                        });
                        if let Some(minimum) = minimum {
                            values = [values[0] + minimum[0], values[1] + minimum[1]];
                        }
                        store8(values, &mut panel[16 * half + 4 * q + at]);
                    }
                }
            }
        }
    }
}

/// The place of an octet that is not held.
const ABSENT: u32 = u32::MAX;

/// For each octet of a matrix its place among those in which rows of `share` lie, of each of `groups` groups; an octet
/// may hold rows of two groups.
fn places(spec: &WeightSpec, groups: usize, share: Share) -> Vec<u32> {
    let mut places = vec![ABSENT; spec.rows.div_ceil(ROWS)];
    let rows = spec.rows / groups;
    let own = share.columns(rows, ROWS);
    let mut next = 0;
    for group in (0..groups).filter(|_| !own.is_empty()) {
        let (start, end) = (group * rows + own.start, group * rows + own.end);
        for place in &mut places[start / ROWS..end.div_ceil(ROWS)] {
            if *place == ABSENT {
                *place = next;
                next += 1;
            }
        }
    }
    places
}

/// Whether the exponent of a half is that of infinity and NaN.
fn is_special(half: &[u8]) -> bool {
    half[1] & 0x7c == 0x7c
}
