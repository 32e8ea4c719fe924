//! The table of rotary angles.

use super::Rope;

/// `positions × dims`: for each position the cosines of its `dims / 2` angles, then their sines.
///
/// Angle `i` at position `p` is `p · θ^(−2i / dims)`. Frequency and product are rounded to f32 as in
/// Hugging Face transformers, so that angles agree at large positions, where one rounding of the
/// product moves the cosine; cosine and sine are then taken in f64.
pub fn table(rope: &Rope, positions: usize) -> Vec<f32> {
    let half = rope.dims / 2;
    let frequency =
        |i: usize| (1.0 / f64::from(rope.theta).powf(2.0 * i as f64 / rope.dims as f64)) as f32;
    let frequencies: Vec<f32> = (0..half).map(frequency).collect();
    let mut table = Vec::with_capacity(positions * rope.dims);
    for position in 0..positions {
        let angles = frequencies
            .iter()
            .map(|frequency| f64::from(position as f32 * frequency));
        table.extend(angles.clone().map(|angle| angle.cos() as f32));
        table.extend(angles.map(|angle| angle.sin() as f32));
    }
    table
}
