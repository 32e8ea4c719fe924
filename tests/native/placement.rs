//! Weights are placed in buffers within limits, and nothing overlaps.

use decant::{
    error::ErrorKind,
    exec::gpu::Placement,
    tensor::{DType, WeightSpec, packed_len},
};

use crate::support::random::Random;

const BINDING: u64 = 128 << 20;

fn spec(dtype: DType, rows: usize, columns: usize) -> WeightSpec {
    WeightSpec {
        name: format!("{}.{rows}.{columns}", dtype.name()),
        dtype,
        rows,
        columns,
    }
}

/// Checks that parts cover every row, lie within buffers within the limit, and do not overlap.
fn check(weights: &[WeightSpec], limit: u64) -> Placement {
    check_one(weights, limit, true);
    check_one(weights, limit, false)
}

fn check_one(weights: &[WeightSpec], limit: u64, striped: bool) -> Placement {
    let placement = Placement::plan(weights, limit, striped).unwrap();
    assert!(placement.buffers.iter().all(|&bytes| bytes <= limit));
    let mut taken: Vec<(usize, u64, u64)> = Vec::new();
    for (spec, placed) in weights.iter().zip(&placement.weights) {
        assert_eq!(placed.rows(), spec.rows, "{}", spec.name);
        let mut next = 0;
        for part in &placed.parts {
            assert_eq!(part.first, next, "{}", spec.name);
            next += part.rows;
            let rows = part.rows.next_multiple_of(placed.stripe);
            let blocks = rows * spec.columns / placed.dtype.block_len();
            let first_block = part.first * spec.columns / placed.dtype.block_len();
            assert!(first_block.is_multiple_of(2), "{}", spec.name);
            let (quants, scales) = packed_len(placed.dtype, blocks);
            let mut places = vec![(part.quants, quants)];
            if scales > 0 {
                places.push((part.scales, scales));
            }
            for (place, words) in places {
                let (from, to) = (place.word as u64 * 4, (place.word + words) as u64 * 4);
                assert!(
                    from.is_multiple_of(32) && to <= placement.buffers[place.buffer],
                    "{}",
                    spec.name
                );
                taken.push((place.buffer, from, to));
            }
        }
    }
    taken.sort_unstable();
    for pair in taken.windows(2) {
        assert!(
            pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1,
            "{pair:?} overlap"
        );
    }
    placement
}

#[test]
fn matrices_above_the_binding_limit_are_split_on_rows() {
    let large = check(&[spec(DType::F16, 256_000, 2048)], BINDING);
    assert!(large.weights[0].parts.len() >= 8 && large.buffers.len() >= 8);
    let just_over_two = check(&[spec(DType::F16, 151_936, 896)], BINDING);
    assert!(just_over_two.weights[0].parts.len() >= 3);
    let fits = check(&[spec(DType::F16, 65_536, 1024)], BINDING);
    assert_eq!((fits.weights[0].parts.len(), fits.buffers.len()), (1, 1));
}

#[test]
fn small_weights_share_buffers_and_waste_little() {
    let mut weights = Vec::new();
    for _ in 0..30 {
        weights.push(spec(DType::F32, 1, 576));
        weights.push(spec(DType::Q4_1, 576, 576));
        weights.push(spec(DType::Q4_1, 1536, 576));
    }
    weights.push(spec(DType::Q8_0, 49_152, 576));
    let placement = check(&weights, BINDING);
    let stored: u64 = placement.buffers.iter().sum();
    let needed: u64 = weights.iter().map(|w| w.bytes() as u64).sum();
    assert!(stored < needed + needed / 100, "{stored} for {needed}");
    assert!(placement.buffers.len() <= 2);
}

#[test]
fn neighbours_of_one_format_and_width_follow_one_another() {
    let weights = [
        spec(DType::F32, 1, 64),
        spec(DType::Q4_0, 64, 64),
        spec(DType::F32, 1, 16),
        spec(DType::Q4_0, 16, 64),
        spec(DType::Q4_0, 64, 32),
        spec(DType::Q8_0, 64, 32),
    ];
    let placed = check(&weights, BINDING).weights;
    let words = |at: usize| {
        let part = &placed[at].parts[0];
        (part.quants.word, part.scales.word)
    };
    assert_eq!(words(2).0, words(0).0 + 64);
    let (quants, scales) = packed_len(DType::Q4_0, 64 * 2);
    assert_eq!(words(3), (words(1).0 + quants, words(1).1 + scales));
    // Neither another width nor another format follows like this.
    assert_ne!(words(4).0, words(3).0 + packed_len(DType::Q4_0, 16 * 2).0);
    assert_ne!(words(5).0, words(4).0 + packed_len(DType::Q4_0, 64).0);
}

#[test]
fn random_weights_in_random_limits() {
    let mut random = Random(5);
    for _ in 0..200 {
        let count = 1 + random.below(12);
        let weights: Vec<_> = (0..count)
            .map(|_| {
                let dtype = DType::ALL[random.below(DType::ALL.len())];
                spec(
                    dtype,
                    1 + random.below(400),
                    (1 + random.below(9)) * dtype.block_len(),
                )
            })
            .collect();
        check(&weights, (20 << 10) + 256 * random.below(200) as u64);
    }
}

#[test]
fn vectors_are_stored_as_f32() {
    let placement = check(
        &[spec(DType::BF16, 1, 107), spec(DType::BF16, 2, 107)],
        BINDING,
    );
    assert_eq!(placement.weights[0].dtype, DType::F32);
    assert_eq!(placement.weights[1].dtype, DType::BF16);
}

#[test]
fn rows_above_the_limit_are_refused() {
    let error = Placement::plan(&[spec(DType::F32, 100, 4096)], 64 << 10, false).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(
        error
            .to_string()
            .starts_with("F32.100.4096: 8 rows of 4096 values"),
        "{error}"
    );
}

#[test]
fn a_weight_without_values_is_refused_and_none_takes_its_place() {
    for (rows, columns) in [(0, 32), (1, 0), (3, 0)] {
        let weights = [
            spec(DType::F32, 4, 32),
            spec(DType::F32, rows, columns),
            spec(DType::F32, 8, 32),
        ];
        let error = Placement::plan(&weights, BINDING, false).unwrap_err();
        let name = weights[1].name.clone();
        assert_eq!(error.kind(), &ErrorKind::InvalidWeights { name });
    }
}
