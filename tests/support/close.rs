//! Comparing numbers with a tolerance for each element, and showing that the comparison can fail.

/// Fails with the worst element unless every `actual` is within its `allowed` of `expected`.
///
/// Also fails on empty input, on different lengths, and on a NaN or infinity on one side only.
pub fn compare(expected: &[f32], actual: &[f32], allowed: &[f64]) -> Result<(), String> {
    if expected.is_empty() {
        return Err("there is nothing to compare".into());
    }
    if (expected.len(), expected.len()) != (actual.len(), allowed.len()) {
        return Err(format!(
            "{} values were expected, {} came, {} tolerances are given",
            expected.len(),
            actual.len(),
            allowed.len()
        ));
    }
    let mut worst = (0.0, None);
    for (i, ((&e, &a), &allowed)) in expected.iter().zip(actual).zip(allowed).enumerate() {
        let same = e.to_bits() == a.to_bits() || (e.is_nan() && a.is_nan());
        let excess = match (f64::from(a) - f64::from(e)).abs() {
            _ if same => 0.0,
            difference if difference.is_nan() || difference.is_infinite() => f64::INFINITY,
            difference if difference <= allowed => 0.0,
            difference => difference / allowed.max(f64::MIN_POSITIVE),
        };
        if excess > worst.0 {
            worst = (excess, Some(i));
        }
    }
    let Some(i) = worst.1 else { return Ok(()) };
    Err(format!(
        "element {i} of {}: expected {}, found {}, allowed difference {:e}",
        expected.len(),
        expected[i],
        actual[i],
        allowed[i]
    ))
}

/// Panics unless the values are close, and unless the comparison notices one element moved by twice
/// what is allowed.
pub fn assert_close(what: &str, expected: &[f32], actual: &[f32], allowed: &[f64]) {
    if let Err(fault) = compare(expected, actual, allowed) {
        panic!("{what}: {fault}");
    }
    let at = expected.len() * 2 / 3;
    let mut moved = actual.to_vec();
    moved[at] = away(expected[at], 2.0 * allowed[at]);
    assert!(
        compare(expected, &moved, allowed).is_err(),
        "{what}: an element moved from {} to {} was not noticed",
        expected[at],
        moved[at]
    );
}

/// The finite number nearest to `value + distance` that is above it, where there is one.
fn away(value: f32, distance: f64) -> f32 {
    let moved = (f64::from(value) + distance) as f32;
    moved.max(value).next_up().min(f32::MAX)
}

/// The tolerance of a sum of `terms` products whose absolute values add up to `magnitude`, computed in
/// f32 in any order and compared with a sum in f64: every product and every addition rounds once, which
/// gives `(terms + 1) · ε · magnitude / 2` (Higham 2002, section 4.2). `extra` counts further roundings of
/// each term, such as those of dequantisation, and of the result.
pub fn sum_tolerance(terms: usize, extra: usize, magnitude: f64) -> f64 {
    (terms + 1 + extra) as f64 * 0.5 * f64::from(f32::EPSILON) * magnitude
        + f64::from(f32::MIN_POSITIVE)
}
