//! The comparer notices what it should.

use crate::support::close::{assert_close, compare, sum_tolerance};

const VALUES: [f32; 4] = [1.0, -2.0, 3.0, 0.0];
const ALLOWED: [f64; 4] = [1e-3; 4];

fn noticed(actual: &[f32]) -> bool {
    compare(&VALUES, actual, &ALLOWED).is_err()
}

#[test]
fn equal_and_nearly_equal_values_pass() {
    assert!(!noticed(&VALUES));
    assert!(!noticed(&[1.0005, -2.0005, 3.0, -0.0]));
}

#[test]
fn one_element_off_is_noticed() {
    assert!(noticed(&[1.002, -2.0, 3.0, 0.0]));
    assert!(noticed(&[1.0, -2.002, 3.0, 0.0]), "between negative values");
    assert!(noticed(&[1.0, 2.0, 3.0, 0.0]), "a sign");
    assert!(noticed(&[-2.0, 1.0, 3.0, 0.0]), "neighbours exchanged");
    assert!(noticed(&[0.0; 4]), "all zeros");
}

#[test]
fn nan_and_infinity_are_noticed() {
    assert!(noticed(&[f32::NAN, -2.0, 3.0, 0.0]));
    assert!(noticed(&[f32::INFINITY, -2.0, 3.0, 0.0]));
    let expected = [f32::NAN, f32::INFINITY];
    assert!(compare(&expected, &expected, &[0.0; 2]).is_ok());
    assert!(
        compare(
            &expected,
            &[f32::NAN, f32::NEG_INFINITY],
            &[f64::INFINITY; 2]
        )
        .is_err()
    );
    assert!(compare(&expected, &[0.0, f32::INFINITY], &[0.0; 2]).is_err());
}

#[test]
fn lengths_and_emptiness_are_noticed() {
    assert!(noticed(&VALUES[..3]));
    assert!(compare(&[], &[], &[]).is_err());
    assert!(compare(&VALUES, &VALUES, &ALLOWED[..3]).is_err());
}

#[test]
fn the_worst_element_is_reported() {
    let fault = compare(&VALUES, &[1.1, -2.0, 4.0, 0.0], &ALLOWED).unwrap_err();
    assert!(
        fault.starts_with("element 2 of 4: expected 3, found 4"),
        "{fault}"
    );
}

#[test]
#[should_panic(expected = "was not noticed")]
fn a_tolerance_that_allows_everything_is_noticed() {
    assert_close("huge", &VALUES, &VALUES, &[f64::INFINITY; 4]);
}

#[test]
fn the_tolerance_of_a_sum_covers_f32_and_little_more() {
    // 1 + 2⁻²⁴ + 2⁻²⁴ + …: every addition is lost, the worst that rounding can do.
    let terms = 1 << 10;
    let tiny = 2f64.powi(-24);
    let exact = 1.0 + tiny * (terms - 1) as f64;
    let lost = exact - 1.0;
    let tolerance = sum_tolerance(terms, 0, exact);
    assert!(
        lost <= tolerance && tolerance < 2.0 * lost,
        "{lost} {tolerance}"
    );
}
