//! From the names of a forward pass to the tensors of a file.

use std::collections::HashMap;

use super::{
    ModelConfig,
    names::{Name, Outputs},
};
use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec},
    weights::{Format, Index, Part, Recipe},
};

/// Finds tensors by the names of GGUF files, whatever the format.
#[derive(Clone, Copy)]
pub(super) struct Tensors<'a> {
    pub index: &'a Index,
    /// Places in the index by the file's own names.
    pub places: &'a HashMap<String, usize>,
    pub names: &'static [Name],
    pub config: &'a ModelConfig,
    /// Whether the output matrix is the embedding, whatever else the file holds.
    pub tied: bool,
    /// What matrices become while they are loaded.
    pub quantise: Option<DType>,
}

/// Matrices that stay as they are when a model is quantised: positions are added rather than multiplied,
/// and a router's small error sends a token to other experts.
const EXACT: [&str; 2] = ["position_embd", "ffn_gate_inp"];

impl Tensors<'_> {
    /// Whether the file holds the tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        let replaced = self.tied && name == "output.weight";
        !replaced && !self.find(name).0.is_empty()
    }

    /// The tensor called `name`, which must be `rows × columns`: what it is stored as, and how it is made.
    pub fn weight(&self, name: &str, rows: usize, columns: usize) -> Result<(WeightSpec, Recipe)> {
        let (places, stored) = self.find(name);
        let Some(&first) = places.first() else {
            return Err(self.missing(name, stored));
        };
        let spec = &self.index.tensors[first].spec;
        let transposed = stored.is_some_and(|name| name.transposed) && spec.rows > 1;
        let mut recipe = Recipe {
            parts: Vec::new(),
            add_one: stored.is_some_and(|name| name.plus_one),
        };
        let mut at = 0;
        for tensor in places {
            let found = &self.index.tensors[tensor].spec;
            if found.dtype != spec.dtype || found.columns != spec.columns {
                let message = format!("its type and width differ from those of {}", spec.name);
                return Err(Error::weights(&found.name, message));
            }
            // A vector has a value an output, a matrix a row, and a transposed matrix a column.
            let (outputs, width) = match (transposed, found.rows) {
                (true, _) => (found.columns, 1),
                (false, 1) => (found.columns, 1),
                (false, rows) => (rows, found.columns),
            };
            let chosen = match stored.and_then(|name| name.outputs) {
                None => vec![Outputs {
                    from: 0,
                    count: outputs,
                }],
                Some(choose) => choose(self.config),
            };
            for Outputs { from, count } in chosen {
                let end = from.checked_add(count).filter(|&end| end <= outputs);
                if end.is_none() {
                    let message =
                        format!("it has {outputs} outputs, the model needs {count} from {from} on");
                    return Err(Error::weights(&found.name, message));
                }
                recipe.parts.push(Part {
                    tensor,
                    from: from * width,
                    len: count * width,
                    at,
                    transposed,
                });
                at += count * if transposed { found.rows } else { width };
            }
        }
        let inputs = if transposed { spec.rows } else { spec.columns };
        if at != rows * columns || (rows > 1 && inputs != columns) {
            let message = format!(
                "the tensor is {} × {}, the model needs {rows} × {columns}",
                spec.rows, spec.columns
            );
            return Err(Error::weights(&spec.name, message));
        }
        let dtype = match self.quantise {
            Some(dtype) if self.can_quantise(name, spec.dtype, rows, columns) => dtype,
            _ if recipe.add_one => DType::F32,
            _ => spec.dtype,
        };
        let spec = WeightSpec {
            name: spec.name.clone(),
            dtype,
            rows,
            columns,
        };
        Ok((spec, recipe))
    }

    fn can_quantise(&self, name: &str, dtype: DType, rows: usize, columns: usize) -> bool {
        rows > 1
            && columns.is_multiple_of(32)
            && dtype.block_len() == 1
            && !EXACT.iter().any(|exact| name.contains(exact))
    }

    /// The places of the tensors that make `name`, none if one is missing, and how they are stored.
    fn find(&self, name: &str) -> (Vec<usize>, Option<&'static Name>) {
        if self.index.format == Format::Gguf {
            return (self.places.get(name).copied().into_iter().collect(), None);
        }
        let Some((stored, wanted)) = self.checkpoint_name(name) else {
            return (Vec::new(), None);
        };
        if !wanted.contains('*') {
            return (self.place(&wanted).into_iter().collect(), Some(stored));
        }
        let experts = (0..).map_while(|i: usize| self.place(&wanted.replace('*', &i.to_string())));
        (experts.collect(), Some(stored))
    }

    /// What `name` is called in a checkpoint; the number of an expert is left open.
    fn checkpoint_name(&self, name: &str) -> Option<(&'static Name, String)> {
        let (stem, kind) = name.rsplit_once('.')?;
        let (layer, pattern) = match stem.strip_prefix("blk.").and_then(|s| s.split_once('.')) {
            Some((layer, rest)) => (layer, format!("blk.*.{rest}")),
            None => ("", stem.to_owned()),
        };
        let stored = self.names.iter().find(|name| name.gguf == pattern)?;
        let stem = stored.checkpoint.replacen('*', layer, 1);
        Some((stored, format!("{stem}.{kind}")))
    }

    /// A tensor's place. A checkpoint of a model without its output layer leaves out the first part of the
    /// names.
    fn place(&self, name: &str) -> Option<usize> {
        let short = || self.places.get(name.split_once('.')?.1);
        self.places.get(name).or_else(short).copied()
    }

    fn missing(&self, name: &str, stored: Option<&Name>) -> Error {
        let wanted = stored.and_then(|_| self.checkpoint_name(name));
        let wanted = wanted.map_or_else(|| name.to_owned(), |(_, wanted)| wanted);
        match self.index.foreign.iter().find(|f| f.name == wanted) {
            Some(foreign) => Error::unsupported(format!(
                "{wanted}: its element type is {}; supported in checkpoints are F32, F16, BF16",
                foreign.dtype
            )),
            None => Error::weights(wanted, "the tensor is missing"),
        }
    }
}
