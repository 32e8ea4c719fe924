//! Files that hold a model together, as `gguf-split` writes them.
//!
//! Each says which part it is (`split.no`, from 0), how many there are (`split.count`) and how many
//! tensors they hold in all (`split.tensors.count`). The first has the model's metadata. Counts of 0 are
//! what some writers put into a file that is not split.

use crate::{
    error::{Error, Result},
    weights::Index,
};

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// Fails unless `file` says that it is part `at` of `count`.
pub(in crate::weights) fn check_part(file: &Index, at: usize, count: usize) -> Result<()> {
    for (key, expected) in [(COUNT, count), (NUMBER, at)] {
        let found = file.metadata.u32(key)?;
        if found.map(|n| n as usize) != Some(expected) {
            let found = found.map_or("nothing".into(), |n| n.to_string());
            let message = format!("{found} in file {at} of {count}, expected {expected}");
            return Err(Error::weights(key, message));
        }
    }
    Ok(())
}

/// Fails if `file`, one of `count` that were given, is a part of more.
pub(in crate::weights) fn check_alone(file: &Index, count: usize) -> Result<()> {
    match file.metadata.u32(COUNT)?.filter(|&parts| parts > 0) {
        Some(parts) if parts as usize != count => Err(Error::weights(
            COUNT,
            format!("the file is one of {parts}, and {count} were given; give them all"),
        )),
        _ => Ok(()),
    }
}

/// Fails if the parts promise another number of tensors than they hold.
pub(in crate::weights) fn check_total(whole: &Index) -> Result<()> {
    match whole.metadata.u32(TENSORS)?.filter(|&count| count > 0) {
        Some(promised) if promised as usize != whole.tensors.len() => Err(Error::weights(
            TENSORS,
            format!(
                "{promised} tensors are promised, {} are there",
                whole.tensors.len()
            ),
        )),
        _ => Ok(()),
    }
}
