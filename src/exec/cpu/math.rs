//! Functions of four numbers at a time: exp, and the activations made of it.

use std::f32::consts::{FRAC_1_SQRT_2, LN_2, LOG2_E};

use super::simd::{F32x4, I32x4};
use crate::ops::Activation;

/// `eˣ` with a relative error below 2·10⁻⁷, for `x` from −87 to 88; the values there for what is beyond;
/// NaN for NaN.
///
/// `x = n·ln 2 + r`: the polynomial interpolates `(eʳ − 1 − r) / r²` at the Chebyshev nodes of
/// `|r| ≤ ln 2 / 2`, which is right to 1.1·10⁻⁸.
#[inline(always)]
pub fn exp(x: F32x4) -> F32x4 {
    let x = x.at_least(F32x4::splat(-87.0)).at_most(F32x4::splat(88.0));
    // Added to this number, `n` stands in the last bits, rounded to an integer.
    let magic = F32x4::splat(12_582_912.0);
    let shifted = x.mul_add(F32x4::splat(LOG2_E), magic);
    let n = shifted - magic;
    // ln 2 in two parts, the first so short that its products with `n` are exact.
    const HIGH: f32 = 0.693_359_4;
    const LOW: f32 = (std::f64::consts::LN_2 - HIGH as f64) as f32;
    const _: () = assert!(HIGH.to_bits() & 0x3ff == 0 && HIGH - LN_2 < 3e-4);
    let r = n.mul_add(F32x4::splat(-LOW), n.mul_add(F32x4::splat(-HIGH), x));
    let mut p = F32x4::splat(0.001_392_625);
    for coefficient in [0.008_363_233, 0.041_666_554, 0.166_665_77, 0.5] {
        p = p.mul_add(r, F32x4::splat(coefficient));
    }
    let p = (r * r).mul_add(p, r + F32x4::splat(1.0));
    let power = shifted.as_bits().shl(23).add(I32x4::splat(127 << 23));
    p * power.as_f32()
}

/// An activation of four numbers. Its error is below 10⁻⁶ of the larger of input and output.
#[inline(always)]
pub fn activate(activation: Activation, x: F32x4) -> F32x4 {
    let (zero, one) = (F32x4::zero(), F32x4::splat(1.0));
    match activation {
        Activation::Silu => x / (one + exp(zero - x)),
        Activation::Gelu => {
            let half = x * F32x4::splat(0.5);
            half.mul_add(erf(x * F32x4::splat(FRAC_1_SQRT_2)), half)
        }
        Activation::GeluTanh => {
            let half = x * F32x4::splat(0.5);
            // √(2/π)
            let inner = x * F32x4::splat(0.797_884_6);
            let inner = inner * (x * x).mul_add(F32x4::splat(0.044_715), one);
            half.mul_add(tanh(inner), half)
        }
        Activation::Relu => x.at_least(zero),
        Activation::ReluSquared => x.at_least(zero) * x.at_least(zero),
        Activation::SoftCap(cap) => F32x4::splat(cap) * tanh(x / F32x4::splat(cap)),
    }
}

/// `tanh x`, to 2·10⁻⁷ absolutely.
fn tanh(x: F32x4) -> F32x4 {
    let (one, two) = (F32x4::splat(1.0), F32x4::splat(2.0));
    one - two / (exp(two * x) + one)
}

/// The error function, to 5·10⁻⁷ absolutely. Source: Abramowitz and Stegun 1964, 7.1.26.
fn erf(x: F32x4) -> F32x4 {
    let (zero, one) = (F32x4::zero(), F32x4::splat(1.0));
    let negative = zero - x;
    let size = x.at_least(negative);
    let t = one / size.mul_add(F32x4::splat(0.327_591_1), one);
    let mut p = F32x4::splat(1.061_405_4);
    for coefficient in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        p = p.mul_add(t, F32x4::splat(coefficient));
    }
    let upper = one - p * t * exp(zero - size * size);
    let sign = x.as_bits().and(I32x4::splat(i32::MIN));
    upper.as_bits().or(sign).as_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(f: impl Fn(F32x4) -> F32x4, x: f32) -> f64 {
        f64::from(f(F32x4::splat(x)).lanes()[0])
    }

    #[test]
    fn exp_is_right_to_its_bound() {
        let worst = (-870_000..=880_000).map(|i| {
            let x = i as f32 * 1e-4;
            (one(exp, x) / f64::from(x).exp() - 1.0).abs()
        });
        let worst = worst.fold(0.0, f64::max);
        assert!(worst > 1e-8 && worst < 2e-7, "{worst:e}");
    }

    #[test]
    fn exp_at_its_ends() {
        assert_eq!(one(exp, 0.0), 1.0);
        assert_eq!(one(exp, f32::NEG_INFINITY), one(exp, -87.0));
        assert_eq!(one(exp, f32::INFINITY), one(exp, 88.0));
        assert!(one(exp, f32::NAN).is_nan());
    }

    #[test]
    fn activations_are_right_to_their_bound() {
        for activation in [
            Activation::Silu,
            Activation::Gelu,
            Activation::GeluTanh,
            Activation::Relu,
            Activation::ReluSquared,
            Activation::SoftCap(30.0),
        ] {
            for i in -4000..=4000 {
                let x = i as f32 * 0.013;
                let expected = activation.apply(f64::from(x));
                let found = one(|x| activate(activation, x), x);
                let size = f64::from(x.abs())
                    .max(expected.abs())
                    .max(match activation {
                        // Its function is that of x / cap, with an absolute error.
                        Activation::SoftCap(cap) => f64::from(cap),
                        _ => 0.0,
                    });
                let error = (found - expected).abs();
                assert!(
                    error <= 1e-6 * size,
                    "{activation:?} of {x}: {found}, not {expected}"
                );
            }
            assert!(
                one(|x| activate(activation, x), f32::NAN).is_nan(),
                "{activation:?}"
            );
        }
    }
}
