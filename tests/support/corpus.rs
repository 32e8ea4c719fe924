//! A deterministic corpus of mixed text, the same that `fixtures/tokenizer/make.py` makes.

use std::fs;

use serde_json::Value;

use super::tokenizers::fixture;

/// What the corpus is made of.
pub struct Samples(Value);

/// The generator of Steele, Lea and Flood.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }
}

impl Samples {
    /// Reads the samples.
    pub fn read() -> Self {
        Self(serde_json::from_slice(&fs::read(fixture("samples.json")).unwrap()).unwrap())
    }

    /// About 4 KB of languages, code, emoji, digits, spaces, control characters, rare characters.
    pub fn document(&self, seed: u64) -> String {
        let mut rng = SplitMix64(seed);
        let mut text = String::new();
        while text.len() < 4096 {
            let part = match rng.below(16) {
                0..5 => self.choose("sentences", &mut rng),
                5..7 => self.choose("code", &mut rng),
                7 => {
                    let count = 1 + rng.below(4);
                    (0..count).map(|_| self.choose("emoji", &mut rng)).collect()
                }
                8 => self.choose("special", &mut rng),
                9 => {
                    let count = 1 + rng.below(9);
                    (0..count).map(|_| character(48 + rng.below(10))).collect()
                }
                10..12 => {
                    let count = 1 + rng.below(6);
                    (0..count)
                        .map(|_| self.choose("spaces", &mut rng))
                        .collect()
                }
                12 => {
                    let count = 1 + rng.below(4);
                    (0..count).map(|_| control(&mut rng)).collect()
                }
                13..15 => {
                    let ranges = self.0["ranges"].as_array().unwrap();
                    let range = &ranges[rng.below(ranges.len() as u64) as usize];
                    let (low, high) = (range[0].as_u64().unwrap(), range[1].as_u64().unwrap());
                    let count = 1 + rng.below(12);
                    (0..count)
                        .map(|_| character(low + rng.below(high - low + 1)))
                        .collect()
                }
                _ => {
                    let letters = "etaoinshrdluETAOIN'_-".as_bytes();
                    let count = 1 + rng.below(14);
                    (0..count)
                        .map(|_| char::from(letters[rng.below(letters.len() as u64) as usize]))
                        .collect()
                }
            };
            if rng.below(3) == 0 {
                text.push(' ');
            }
            text.push_str(&part);
        }
        text
    }

    fn choose(&self, list: &str, rng: &mut SplitMix64) -> String {
        let list = self.0[list].as_array().unwrap();
        list[rng.below(list.len() as u64) as usize]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

fn character(code: u64) -> char {
    char::from_u32(code as u32).unwrap()
}

/// A control character of ASCII, now and then the last one.
fn control(rng: &mut SplitMix64) -> char {
    if rng.below(8) == 0 {
        '\u{7F}'
    } else {
        character(rng.below(32))
    }
}

/// FNV-1a, as 16 hexadecimal digits.
pub fn fnv(bytes: impl IntoIterator<Item = u8>) -> String {
    let hash = bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
    format!("{hash:016x}")
}
