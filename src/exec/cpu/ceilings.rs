//! The ceilings of one core as this build uses it, for `decant bench`.

use std::{hint::black_box, time::Instant};

use super::simd::F32x4;
use crate::exec::ceilings::{Ceilings, best};

/// Bytes that are read.
const BYTES: usize = 96 << 20;
/// Rounds of as many multiply-adds as there are values in all chains.
const ROUNDS: usize = 1 << 20;
/// Chains that hide one another's latency, and fit the registers.
const CHAINS: usize = 12;
/// Runs of which the best counts.
const RUNS: usize = 7;

impl super::Cpu {
    /// Measures what the calling thread can do, which takes about a second.
    pub fn ceilings() -> Ceilings {
        let values = vec![1.0f32; BYTES / 4];
        let read = best(RUNS, || {
            let start = Instant::now();
            let mut sums = [F32x4::zero(); 8];
            let (blocks, _) = black_box(&values[..]).as_chunks::<32>();
            for block in blocks {
                let (quads, _) = block.as_chunks::<4>();
                for (sum, quad) in sums.iter_mut().zip(quads) {
                    *sum = *sum + F32x4::load(quad);
                }
            }
            black_box(sums);
            start.elapsed().as_secs_f64()
        });
        let multiply_add = best(RUNS, || {
            let (factor, addend) = black_box((F32x4::splat(0.5), F32x4::splat(1.0)));
            let start = Instant::now();
            let mut chains = black_box([F32x4::zero(); CHAINS]);
            for _ in 0..ROUNDS {
                for chain in &mut chains {
                    *chain = chain.mul_add(factor, addend);
                }
            }
            black_box(chains);
            start.elapsed().as_secs_f64()
        });
        Ceilings {
            read: BYTES as f64 / read,
            multiply_add: (ROUNDS * CHAINS * 4) as f64 / multiply_add,
            dispatch: 0.0,
            round_trip: 0.0,
        }
    }
}
