//! Weight formats: the published formulas, and repacking that loses nothing.
//!
//! Golden numbers are those of the `gguf` Python package (`tests/fixtures/formats.py`), compared bit
//! for bit: each value is one multiplication and at most one addition in f32, so nothing may differ.

use decant::tensor::{DType, Matrix, Packed, dequantise, packed_len, repack};

use crate::support::{quantise::quantise, random::Random};

fn golden() -> serde_json::Value {
    serde_json::from_str(include_str!("../fixtures/formats.json")).unwrap()
}

fn bytes(hex: &serde_json::Value) -> Vec<u8> {
    let hex = hex.as_str().expect("a string of hexadecimal digits");
    let digits = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn floats(hex: &serde_json::Value) -> Vec<f32> {
    let bytes = bytes(hex);
    let (words, _) = bytes.as_chunks();
    words.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn values(dtype: DType, blocks: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; blocks.len() / dtype.block_bytes() * dtype.block_len()];
    dequantise(dtype, blocks, &mut values);
    values
}

/// The inverse of [`repack`], from the table in its documentation.
fn unpack(dtype: DType, packed: &Packed, blocks: usize) -> Vec<u8> {
    let flat = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    let (quants, scales) = (flat(&packed.quants), flat(&packed.scales));
    let (scale, quant) = match dtype {
        DType::F32 => (0, 4),
        DType::F16 | DType::BF16 => (0, 2),
        DType::Q8_0 => (2, 32),
        DType::Q4_0 => (2, 16),
        DType::Q4_1 => (4, 16),
    };
    let block = |i| [&scales[i * scale..][..scale], &quants[i * quant..][..quant]].concat();
    (0..blocks).flat_map(block).collect()
}

/// `count` blocks of random bytes.
fn noise(dtype: DType, count: usize) -> Vec<u8> {
    let mut random = Random(7);
    (0..count * dtype.block_bytes())
        .map(|_| random.bits() as u8)
        .collect()
}

#[test]
fn dequantises_as_published() {
    let golden = golden();
    for dtype in [DType::Q8_0, DType::Q4_0, DType::Q4_1] {
        let case = &golden["dequantise"][dtype.name()];
        let (mut blocks, expected) = (bytes(&case["blocks"]), floats(&case["values"]));
        assert_eq!(expected.len(), 8 * 32);
        assert_eq!(bits(&values(dtype, &blocks)), bits(&expected), "{dtype:?}");
        // The last block has the largest scale, so any change of a quant changes a value.
        *blocks.last_mut().unwrap() ^= 1;
        assert_ne!(bits(&values(dtype, &blocks)), bits(&expected), "{dtype:?}");
    }
}

#[test]
fn reads_every_half() {
    for bits in 0..=u16::MAX {
        let exponent = i32::from(bits >> 10 & 31);
        let mantissa = f64::from(bits & 1023);
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
        };
        let expected = if bits >> 15 == 0 {
            magnitude
        } else {
            -magnitude
        };
        let [found] = values(DType::F16, &bits.to_le_bytes())[..] else {
            panic!("one value");
        };
        assert!(
            f64::from(found).to_bits() == expected.to_bits()
                || (found.is_nan() && expected.is_nan()),
            "{bits:#06x}: {found}, expected {expected}"
        );
        let found = values(DType::BF16, &bits.to_le_bytes())[0];
        let expected = f32::from_bits(u32::from(bits) << 16);
        assert!(
            found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
            "{bits:#06x}: {found}, expected {expected}"
        );
    }
}

#[test]
fn quantises_as_published() {
    let golden = &golden()["quantise"];
    let values = floats(&golden["values"]);
    for dtype in DType::ALL {
        if dtype == DType::F32 {
            assert_eq!(
                bits(&values),
                bits(&self::values(dtype, &quantise(dtype, &values)))
            );
            continue;
        }
        assert_eq!(
            quantise(dtype, &values),
            bytes(&golden[dtype.name()]),
            "{dtype:?}"
        );
    }
}

#[test]
fn a_row_is_its_own_blocks() {
    for dtype in DType::ALL {
        let (rows, columns) = (3, 3 * dtype.block_len());
        let blocks = noise(dtype, 9);
        let all = values(dtype, &blocks);
        let matrix = Matrix {
            dtype,
            rows,
            columns,
            blocks: &blocks,
        };
        for row in 0..rows {
            let mut found = vec![0.0; columns];
            matrix.row(row, &mut found);
            assert_eq!(
                bits(&found),
                bits(&all[row * columns..][..columns]),
                "{dtype:?}"
            );
        }
    }
}

#[test]
fn repacking_loses_nothing() {
    for dtype in DType::ALL {
        for count in [0, 1, 2, 3, 8, 63] {
            let blocks = noise(dtype, count);
            let packed = repack(dtype, &blocks);
            assert_eq!(
                (packed.quants.len(), packed.scales.len()),
                packed_len(dtype, count)
            );
            assert_eq!(
                unpack(dtype, &packed, count),
                blocks,
                "{dtype:?}, {count} blocks"
            );
        }
    }
}

#[test]
fn an_odd_end_is_filled_with_zeros() {
    for dtype in [DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0] {
        let packed = repack(dtype, &vec![0xff; 3 * dtype.block_bytes()]);
        let words = if dtype.block_len() == 1 {
            packed.quants
        } else {
            packed.scales
        };
        assert_eq!(words, [0xffff_ffff, 0x0000_ffff], "{dtype:?}");
    }
}

#[test]
fn pieces_cut_at_even_blocks_give_the_same_words() {
    for dtype in DType::ALL {
        let count = 13;
        let blocks = noise(dtype, count);
        let whole = repack(dtype, &blocks);
        for cut in (0..=count).step_by(2) {
            let (first, second) = blocks.split_at(cut * dtype.block_bytes());
            let (mut joined, rest) = (repack(dtype, first), repack(dtype, second));
            joined.quants.extend(rest.quants);
            joined.scales.extend(rest.scales);
            assert_eq!(joined, whole, "{dtype:?} cut at {cut}");
        }
    }
    // The rule about even blocks is needed: an odd cut gives other words.
    let blocks = noise(DType::Q8_0, 4);
    let (first, second) = blocks.split_at(34);
    let odd = [repack(DType::Q8_0, first), repack(DType::Q8_0, second)];
    let odd = odd.map(|packed| packed.scales).concat();
    assert_ne!(odd, repack(DType::Q8_0, &blocks).scales);
}
