//! `model.safetensors.index.json`: which of several files holds which tensor.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    error::{Error, Result},
    weights::Index,
};

const FILE: &str = "model.safetensors.index.json";

/// The files of a checkpoint that lies in several.
#[derive(Debug, Clone)]
pub struct Shards {
    /// Their names, beside the index.
    pub files: Vec<String>,
    /// For each tensor, its file's place in `files`.
    tensors: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Document {
    weight_map: BTreeMap<String, String>,
}

impl Shards {
    /// Reads the index.
    ///
    /// # Errors
    /// It is not one, is empty, or names a file that does not lie beside it.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let Document { weight_map } =
            serde_json::from_slice(text).map_err(|error| Error::weights(FILE, error))?;
        let mut files: Vec<String> = weight_map.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        if files.is_empty() {
            return Err(Error::weights(FILE, "weight_map names no tensor"));
        }
        // A name is asked of the place where the index came from; it must not lead anywhere else.
        let leads_away =
            |name: &&String| name.is_empty() || name.contains(['/', '\\', ':', '?', '#', '%']);
        if let Some(name) = files.iter().find(leads_away) {
            let message = format!("{name:?} is not the name of a file beside it");
            return Err(Error::weights(FILE, message));
        }
        let place = |file: &String| files.binary_search(file).unwrap_or(0);
        let tensors = weight_map
            .iter()
            .map(|(name, file)| (name.clone(), place(file)))
            .collect();
        Ok(Self { files, tensors })
    }

    /// Fails unless the files, in the order of `files`, hold what the index promises.
    pub fn check(&self, indices: &[Index]) -> Result<()> {
        for (at, index) in indices.iter().enumerate() {
            let tensors = index.tensors.iter().map(|tensor| &tensor.spec.name);
            let found = tensors.chain(index.foreign.iter().map(|foreign| &foreign.name));
            let found: std::collections::HashSet<&String> = found.collect();
            let promised = self.tensors.iter().filter(|(_, file)| **file == at);
            for (name, _) in promised {
                if !found.contains(name) {
                    let message = format!(
                        "{FILE} says that {} holds this tensor, but it does not",
                        self.files[at]
                    );
                    return Err(Error::weights(name, message));
                }
            }
        }
        Ok(())
    }
}
