//! Activations of 8 or 16 bits: each 32 neighbouring values of a row share a scale.
//!
//! `x ≈ scale · q` with `scale = max|x| / most` and `q` from −most to most, 127 or 32639, so a value is off by
//! half a scale at most. With 8 bits this is what llama.cpp does with activations (its q8_0 and q8_1); with 16
//! it is as exact as numbers are for most purposes, and costs what 8 bits cost without an instruction for them.

use super::{
    formats::BLOCK,
    simd::{F32x4, I32x4, Quad},
};

/// The quantised rows of one input.
#[derive(Debug, Default)]
pub struct Blocks<Q> {
    rows: usize,
    /// The first blocks of all rows, then their second blocks…
    blocks: Vec<Block<Q>>,
}

/// 32 neighbouring values of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Block<Q> {
    /// The quants, four by four.
    pub quads: [Q; BLOCK / 4],
    /// What a quant is multiplied by; NaN if any of the values was not finite.
    pub scale: f32,
    /// The sums of the quants of the first 16 values and of the others.
    pub sums: [i32; 2],
    /// The same as numbers: times the scale.
    pub scaled_sums: [f32; 2],
}

impl<Q: Quad> Blocks<Q> {
    /// Quantises `x`, rows of `columns` values, a multiple of 32, to quants of at most `most`. Keeps its memory
    /// from call to call.
    pub fn fill(&mut self, x: &[f32], columns: usize, most: f32) {
        self.rows = x.len() / columns;
        let in_row = columns / BLOCK;
        self.blocks.resize(self.rows * in_row, Block::default());
        let (blocks, _) = x.as_chunks::<BLOCK>();
        for (row, blocks) in blocks.chunks_exact(in_row).enumerate() {
            for (at, values) in blocks.iter().enumerate() {
                quantise(values, most, &mut self.blocks[at * self.rows + row]);
            }
        }
    }

    /// For each 32 columns, the blocks of all rows.
    pub fn columns(&self) -> impl Iterator<Item = &[Block<Q>]> {
        self.blocks.chunks_exact(self.rows)
    }
}

/// Below this, values of a block count as zeros: its inverse is still finite.
const LEAST: f32 = 1e-30;

/// The largest quants of 8 and of 16 bits: of those, `127 · 256 + 127`, so that two bytes with signs can stand for
/// each.
pub const MOST: [f32; 2] = [127.0, 32_639.0];

fn quantise<Q: Quad>(values: &[f32; BLOCK], most: f32, block: &mut Block<Q>) {
    let (vectors, _) = values.as_chunks();
    let zero = F32x4::zero();
    let (mut largest, mut check) = (zero, zero);
    for vector in vectors.iter().map(F32x4::load) {
        largest = largest.at_least(vector).at_least(zero - vector);
        // Zero for what is finite.
        check = check + vector * zero;
    }
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let largest = largest.lanes().into_iter().fold(0.0, larger);
    let inverse = if largest < LEAST { 0.0 } else { most / largest };
    // Added to this number, a quant stands in the last bits, rounded to an integer.
    let magic = F32x4::splat(12_582_912.0);
    let mut sums = [I32x4::splat(0); 2];
    for (i, (quad, vector)) in block.quads.iter_mut().zip(vectors).enumerate() {
        // Rounded after the product, so that a value in the middle becomes the same quant in every build.
        let shifted = F32x4::load(vector) * F32x4::splat(inverse) + magic;
        *quad = Q::new(shifted.as_bits());
        sums[i / 4] = sums[i / 4].add(shifted.as_bits());
    }
    let offset = (BLOCK as i32 / 8).wrapping_mul(12_582_912f32.to_bits() as i32);
    block.sums = sums.map(|sum| {
        let lanes = sum.lanes().map(|lane| lane.wrapping_sub(offset));
        lanes.into_iter().fold(0, i32::wrapping_add)
    });
    block.scale = largest / most + check.sum();
    if largest < LEAST {
        block.scale = check.sum();
    }
    block.scaled_sums = block.sums.map(|sum| block.scale * sum as f32);
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::{
        super::simd::{Eights, Sixteens},
        *,
    };

    fn block(x: impl Fn(usize) -> f32) -> Block<Eights> {
        quantised(x, MOST[0])
    }

    fn quantised<Q: Quad>(x: impl Fn(usize) -> f32, most: f32) -> Block<Q> {
        let mut block = Block::default();
        quantise(&std::array::from_fn(x), most, &mut block);
        block
    }

    /// Quads can be compared, not read: that is left to the products that they are for.
    fn quads<Q: Quad>(quants: impl Fn(usize) -> i32) -> [Q; 8] {
        std::array::from_fn(|q| {
            let bits = std::array::from_fn(|i| f32::from_bits(quants(4 * q + i) as u32));
            Q::new(F32x4::load(&bits).as_bits())
        })
    }

    #[test]
    fn the_largest_becomes_127() {
        let found = block(|i| (i as f32 - 31.0) / 2.0);
        assert_eq!(found.scale, 15.5 / 127.0);
        let quant = |i: usize| ((i as f32 - 31.0) * 127.0 / 31.0).round() as i32;
        assert_eq!(found.quads, quads(quant));
        let sum = |range: Range<usize>| range.map(quant).sum::<i32>();
        assert_eq!(found.sums, [sum(0..16), sum(16..32)]);
        assert_ne!(found.quads, quads(|i| quant(i) + i32::from(i == 30)));
    }

    #[test]
    fn of_16_bits_the_largest_becomes_32639() {
        let found: Block<Sixteens> = quantised(|i| (i as f32 - 31.0) / 2.0, MOST[1]);
        assert_eq!(found.scale, 15.5 / 32_639.0);
        let quant = |i: usize| ((i as f32 - 31.0) * 32_639.0 / 31.0).round() as i32;
        assert_eq!(found.quads, quads(quant));
        let sum = |range: Range<usize>| range.map(quant).sum::<i32>();
        assert_eq!(found.sums, [sum(0..16), sum(16..32)]);
        assert_ne!(found.quads, quads(|i| quant(i) + i32::from(i == 30)));
    }

    #[test]
    fn zeros_and_what_is_nearly_zero_stay_finite() {
        assert_eq!(block(|_| 0.0), Block::default());
        assert_eq!(
            block(|i| if i == 3 { -1e-39 } else { 0.0 }),
            Block::default()
        );
    }

    #[test]
    fn what_is_not_finite_is_not_hidden() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(
                block(|i| if i == 17 { bad } else { 1.0 }).scale.is_nan(),
                "{bad}"
            );
        }
    }
}
