//! Damaged GGUF files: cut short at every length, and changed at random. A damaged file may still be
//! sound (a changed value is a value), but reading it ends in a typed error or in whole tensors.

use decant::error::{Error, ErrorKind};

use super::gguf::sample;
use crate::support::{mutate::mutate, random::Random, read::read};

fn name(error: &Error) -> &str {
    match error.kind() {
        ErrorKind::InvalidWeights { name } => name,
        kind => panic!("{error}: {kind:?}"),
    }
}

#[test]
fn every_truncation_is_an_error() {
    let file = sample();
    let (bytes, header) = (file.build(), file.header().len());
    let names: Vec<&str> = file
        .tensors
        .iter()
        .map(|t| str::from_utf8(&t.name).unwrap())
        .collect();
    for len in 0..bytes.len() {
        for size in [None, Some(len as u64), Some(bytes.len() as u64)] {
            for piece in [usize::MAX, 61] {
                let error = read(&bytes[..len], size, &[piece]).unwrap_err();
                assert!(error.to_string().contains("cut short"), "{len}: {error}");
                assert!(len < header || names.contains(&name(&error)), "{error}");
                assert!(!name(&error).is_empty());
            }
        }
    }
}

#[test]
fn damage_is_an_error_or_harmless() {
    let file = sample();
    let (bytes, header) = (file.build(), file.header().len());
    let (mut sound, mut refused) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let damaged = mutate(&bytes, header, &mut random);
        let size = (seed % 2 == 0).then_some(damaged.len() as u64);
        let lengths = [1 + random.below(100), 1 + random.below(5000)];
        match read(&damaged, size, &lengths) {
            Ok(loaded) => {
                for (tensor, data) in loaded.index.tensors.iter().zip(&loaded.tensors) {
                    assert_eq!(tensor.spec.bytes(), data.len(), "seed {seed}");
                }
                sound += 1;
            }
            Err(error) => {
                let typed = match error.kind() {
                    ErrorKind::InvalidWeights { name } => !name.is_empty(),
                    kind => kind == &ErrorKind::Unsupported,
                };
                assert!(typed, "seed {seed}: {error:?}");
                refused += 1;
            }
        }
    }
    // Both ends are reached, or the damage is too small or too large to test anything.
    assert!(
        sound > 1000 && refused > 5000,
        "{sound} sound, {refused} refused"
    );
}
