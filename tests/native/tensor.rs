//! Weight formats: the published formulas, and repacking that loses nothing.
//!
//! Golden numbers are those of the `gguf` Python package (`tests/fixtures/formats.py`), compared bit
//! for bit: operations round in the same order, so nothing may differ.

use decant::tensor::{DType, Matrix, Packed, dequantise, packed_len, repack};

use crate::support::{
    gguf::kind,
    quantise::{QUANTISED, quantise},
    random::Random,
};

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

/// The checksum of `tests/fixtures/formats.py`.
fn checksum(values: &[f32]) -> u64 {
    let mixed = (0u64..).zip(values).map(|(i, value)| {
        // The first number of a generator is its seed, moved on and mixed.
        let state = i << 32 | u64::from(value.to_bits());
        Random(state.wrapping_sub(0x9e37_79b9_7f4a_7c15)).bits()
    });
    mixed.fold(0, u64::wrapping_add)
}

#[test]
fn ten_thousand_blocks_of_each_format_are_as_published() {
    let golden = golden();
    let formats = golden["many"].as_object().unwrap();
    let quantised = DType::ALL.iter().filter(|dtype| dtype.block_len() > 1);
    assert_eq!(formats.len(), quantised.clone().count());
    for &dtype in quantised {
        let count = 10_240 * dtype.block_bytes();
        let mut random = Random(u64::from(kind(dtype)));
        let mut blocks: Vec<u8> = (0..count / 8)
            .flat_map(|_| random.bits().to_le_bytes())
            .collect();
        let halves: &[usize] = match dtype {
            DType::MXFP4 => &[],
            DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K => &[0, 2],
            DType::Q2_K => &[80, 82],
            DType::Q3_K => &[108],
            DType::Q6_K => &[208],
            _ => &[0],
        };
        for block in blocks.chunks_exact_mut(dtype.block_bytes()) {
            halves.iter().for_each(|at| block[at + 1] &= 0xbf);
        }
        let found = checksum(&values(dtype, &blocks));
        assert_eq!(format!("{found:016x}"), formats[dtype.name()], "{dtype:?}");
        blocks[count / 2] ^= 1;
        assert_ne!(found, checksum(&values(dtype, &blocks)), "{dtype:?}");
    }
}

#[test]
fn quantises_while_loading_as_published() {
    let golden = &golden()["quantise"];
    let values = floats(&golden["values"]);
    for dtype in [DType::Q8_0, DType::Q4_0, DType::F16, DType::BF16] {
        let mut expected = bytes(&golden[dtype.name()]);
        assert_eq!(decant::tensor::quantise(dtype, &values).unwrap(), expected);
        *expected.last_mut().unwrap() ^= 1;
        assert_ne!(decant::tensor::quantise(dtype, &values).unwrap(), expected);
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
    for dtype in QUANTISED {
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

/// The value at each place of a weight of one row, from the layout in the documentation of [`repack`] and the
/// formulas of [`DType`]: what a shader computes.
fn unpack(dtype: DType, packed: &Packed, len: usize) -> Vec<f32> {
    let Packed { quants, scales } = packed;
    let half = |word: u32, high: bool| {
        half::f16::from_bits((word >> if high { 16 } else { 0 }) as u16).to_f32()
    };
    let byte = |word: u32, at: usize| (word >> (at % 4 * 8)) as u8;
    let value = |i: usize| {
        let (block, column) = (i / 32, i % 32);
        let (quad, lane) = (column / 4, column % 4);
        let (super_block, odd) = (block / 8, block % 2 == 1);
        let nibble = || byte(quants[block * 4 + quad % 4], lane) >> (quad / 4 * 4) & 15;
        let pair =
            |words: &[u32]| byte(words[block % 8 * 2 + quad / 4], lane) >> (quad % 4 * 2) & 3;
        let bit = |word: u32| byte(word, lane) >> quad & 1;
        let iq4 = |nibble: u8| {
            [
                -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
            ][usize::from(nibble)] as f32
        };
        let record = |words: usize| &scales[super_block * words..][..words];
        let sixteenth = i % 256 / 16;
        let low = || pair(&quants[super_block * 16..]);
        let signed = |record: &[u32]| {
            half(record[0], false) * f32::from(byte(record[1 + sixteenth / 4], sixteenth) as i8)
        };
        let factors = |record: &[u32]| {
            let at = block % 8 * 2;
            let word = record[1 + at / 4];
            let scale = half(record[0], false) * f32::from(byte(word, at));
            (scale, half(record[0], true) * f32::from(byte(word, at + 1)))
        };
        match dtype {
            DType::F32 => f32::from_bits(quants[i]),
            DType::F16 => half(quants[i / 2], i % 2 == 1),
            DType::BF16 => f32::from_bits(quants[i / 2] >> (i % 2 * 16) << 16),
            DType::Q8_0 => {
                half(scales[block / 2], odd) * f32::from(byte(quants[i / 4], lane) as i8)
            }
            DType::Q4_0 => half(scales[block / 2], odd) * (f32::from(nibble()) - 8.0),
            DType::IQ4_NL => half(scales[block / 2], odd) * iq4(nibble()),
            DType::MXFP4 => {
                let scale = f32::from_bits(scales[block / 2] >> (block % 2 * 16) << 16);
                let number = [0, 1, 2, 3, 4, 6, 8, 12][usize::from(nibble() & 7)] as f32;
                scale * if nibble() < 8 { number } else { 0.0 - number }
            }
            DType::Q4_1 => {
                half(scales[block], false) * f32::from(nibble()) + half(scales[block], true)
            }
            DType::Q5_0 => {
                let words = &scales[block / 2 * 3..][..3];
                let level = nibble() | bit(words[block % 2]) << 4;
                half(words[2], odd) * (f32::from(level) - 16.0)
            }
            DType::Q5_1 => {
                let level = nibble() | bit(scales[block * 2]) << 4;
                let word = scales[block * 2 + 1];
                half(word, false) * f32::from(level) + half(word, true)
            }
            DType::Q2_K => {
                let record = record(5);
                let both = byte(record[1 + sixteenth / 4], sixteenth);
                let scale = half(record[0], false) * f32::from(both & 15);
                scale * f32::from(low()) - half(record[0], true) * f32::from(both >> 4)
            }
            DType::Q3_K => {
                let record = record(13);
                let level = low() | bit(record[5 + block % 8]) << 2;
                signed(record) * (f32::from(level) - 4.0)
            }
            DType::Q4_K => {
                let (scale, minimum) = factors(record(5));
                scale * f32::from(nibble()) - minimum
            }
            DType::Q5_K => {
                let (scale, minimum) = factors(record(13));
                scale * f32::from(nibble() | bit(record(13)[5 + block % 8]) << 4) - minimum
            }
            DType::Q6_K => {
                let record = record(21);
                let level = nibble() | pair(&record[5..]) << 4;
                signed(record) * (f32::from(level) - 32.0)
            }
            DType::IQ4_XS => {
                let record = record(2);
                let low = record[1] >> (block % 8 * 4) & 15;
                let high = record[0] >> (16 + block % 8 * 2) & 3;
                half(record[0], false) * ((low | high << 4) as f32 - 32.0) * iq4(nibble())
            }
        }
    };
    (0..len).map(value).collect()
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
            let values = values(dtype, &blocks);
            let found = unpack(dtype, &packed, values.len());
            for (i, (value, found)) in values.iter().zip(&found).enumerate() {
                assert!(
                    value.to_bits() == found.to_bits() || value.is_nan() && found.is_nan(),
                    "{dtype:?}, {count} blocks, value {i}: {value}, repacked {found}"
                );
            }
        }
    }
}

#[test]
fn what_a_device_keeps_is_at_most_a_tenth_above_the_file() {
    for dtype in DType::ALL {
        let (quants, scales) = packed_len(dtype, 1000);
        let (kept, file) = ((quants + scales) * 4, 1000 * dtype.block_bytes());
        assert!(
            kept >= file && kept * 10 <= file * 11,
            "{dtype:?}: {kept} bytes for {file}"
        );
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
