//! From the names of a forward pass to the tensors of a file.

use std::collections::HashMap;

use super::{
    ModelConfig,
    names::{ChooseOutputs, Name, Outputs},
};
use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec},
    weights::{Format, Index, MAX_TENSOR, Part, Recipe},
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

/// The tensors that make a weight, in order up to the first that is missing, and how.
#[derive(Default)]
struct Found {
    places: Vec<usize>,
    /// Whether they are joined, one for each expert or head.
    joined: bool,
    stored: Stored,
}

/// How a weight is stored, as in [`Name`].
#[derive(Default)]
struct Stored {
    outputs: Option<ChooseOutputs>,
    transposed: bool,
    plus_one: bool,
}

impl Tensors<'_> {
    /// Whether the file holds the tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        let replaced = self.tied && name == "output.weight";
        !replaced && !self.find(name).places.is_empty()
    }

    /// The tensor called `name`, which must be `rows × columns`: what it is stored as, and how it is made.
    pub fn weight(&self, name: &str, rows: usize, columns: usize) -> Result<(WeightSpec, Recipe)> {
        let Found {
            places,
            joined,
            stored,
        } = self.find(name);
        let Some(&first) = places.first() else {
            return Err(self.missing(name, 0));
        };
        let spec = &self.index.tensors[first].spec;
        let transposed = stored.transposed && spec.rows > 1;
        let mut recipe = Recipe {
            parts: Vec::new(),
            add_one: stored.plus_one,
        };
        let (mut at, count) = (0, places.len());
        for tensor in places {
            let found = &self.index.tensors[tensor].spec;
            let shape = |spec: &WeightSpec| (spec.dtype, spec.rows, spec.columns);
            if shape(found) != shape(spec) {
                let text = |spec: &WeightSpec| {
                    format!("{} × {} of {}", spec.rows, spec.columns, spec.dtype.name())
                };
                let (is, other) = (text(found), text(spec));
                let message = format!("the tensor is {is}, and {} is {other}", spec.name);
                return Err(Error::weights(&found.name, message));
            }
            // A vector has a value an output, a matrix a row, and a transposed matrix a column.
            let (outputs, width) = match (transposed, found.rows) {
                (true, _) => (found.columns, 1),
                (false, 1) => (found.columns, 1),
                (false, rows) => (rows, found.columns),
            };
            let chosen = match stored.outputs {
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
                let part = Part {
                    tensor,
                    from: from * width,
                    len: count * width,
                    at,
                    transposed,
                };
                let block = found.dtype.block_len();
                let cut = [part.from, part.len, part.at]
                    .iter()
                    .any(|n| n % block != 0);
                if cut || (transposed && block > 1) {
                    return Err(Error::unsupported(format!(
                        "{}: the model takes {count} of its outputs from {from} on, and they begin or end inside a block of {}",
                        found.name,
                        found.dtype.name()
                    )));
                }
                recipe.parts.push(part);
                at += count * if transposed { found.rows } else { width };
            }
        }
        let each = spec.rows * spec.columns;
        if joined && at < rows * columns && (rows * columns).is_multiple_of(each) {
            return Err(self.missing(name, count));
        }
        let inputs = if transposed { spec.rows } else { spec.columns };
        if at != rows * columns || (rows > 1 && inputs != columns) {
            let all = match joined {
                false => String::new(),
                true => format!(" and one of {count}"),
            };
            let message = format!(
                "the tensor is {} × {}{all}, the model needs {rows} × {columns}",
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
        let blocks = (rows as u64 * columns as u64).div_ceil(spec.dtype.block_len() as u64);
        let bytes = blocks * spec.dtype.block_bytes() as u64;
        if bytes > MAX_TENSOR {
            return Err(Error::unsupported(format!(
                "{}: a weight of {bytes} bytes, at most {MAX_TENSOR} are supported",
                spec.name
            )));
        }
        Ok((spec, recipe))
    }

    fn can_quantise(&self, name: &str, dtype: DType, rows: usize, columns: usize) -> bool {
        rows > 1
            && columns.is_multiple_of(32)
            && dtype.block_len() == 1
            && !EXACT.iter().any(|exact| name.contains(exact))
    }

    /// The place of the vector called `name`, which must have `columns` values.
    pub fn vector(&self, name: &str, columns: usize) -> Result<usize> {
        let place = self.places.get(name).ok_or_else(|| self.missing(name, 0))?;
        let spec = &self.index.tensors[*place].spec;
        if (spec.rows, spec.columns, spec.dtype) == (1, columns, DType::F32) {
            return Ok(*place);
        }
        let message = format!(
            "the tensor is {} × {} of {}, the model needs 1 × {columns} of F32",
            spec.rows,
            spec.columns,
            spec.dtype.name()
        );
        Err(Error::weights(name, message))
    }

    /// The tensors that make `name`.
    fn find(&self, name: &str) -> Found {
        if self.index.format == Format::Gguf {
            return self.find_in_gguf(name);
        }
        let Some((stored, wanted)) = self.checkpoint_name(name) else {
            return Found::default();
        };
        let joined = wanted.contains('*');
        let places = if joined {
            let expert = |i: usize| self.place(&wanted.replace('*', &i.to_string()));
            (0..).map_while(expert).collect()
        } else {
            self.place(&wanted).into_iter().collect()
        };
        let stored = Stored {
            outputs: stored.outputs,
            transposed: stored.transposed,
            plus_one: stored.plus_one,
        };
        Found {
            places,
            joined,
            stored,
        }
    }

    /// A part of a tensor that is fused with others, or else a tensor of its own.
    fn find_in_gguf(&self, name: &str) -> Found {
        let fused = || {
            let (whole, outputs) = self.fused_name(name)?;
            Some((*self.places.get(&whole)?, Some(outputs)))
        };
        let own = || Some((*self.places.get(name)?, None));
        let Some((place, outputs)) = fused().or_else(own) else {
            return Found::default();
        };
        let stored = Stored {
            outputs,
            ..Stored::default()
        };
        Found {
            places: vec![place],
            joined: false,
            stored,
        }
    }

    /// What the tensor that `name` is fused into in GGUF files is called, and its outputs there.
    fn fused_name(&self, name: &str) -> Option<(String, ChooseOutputs)> {
        let (stored, layer, kind) = self.stored(name)?;
        let (whole, outputs) = stored.fused?;
        Some((format!("{}.{kind}", whole.replacen('*', layer, 1)), outputs))
    }

    /// What `name` is called in a checkpoint; the number of an expert or head is left open.
    fn checkpoint_name(&self, name: &str) -> Option<(&'static Name, String)> {
        let (stored, layer, kind) = self.stored(name)?;
        let stem = stored.checkpoint.replacen('*', layer, 1);
        Some((stored, format!("{stem}.{kind}")))
    }

    /// The family's entry for `name`, the number of the layer, and whether it is weight or bias.
    fn stored<'b>(&self, name: &'b str) -> Option<(&'static Name, &'b str, &'b str)> {
        let (stem, kind) = name.rsplit_once('.')?;
        let (layer, pattern) = match stem.strip_prefix("blk.").and_then(|s| s.split_once('.')) {
            Some((layer, rest)) => (layer, format!("blk.*.{rest}")),
            None => ("", stem.to_owned()),
        };
        let stored = self.names.iter().find(|name| name.gguf == pattern)?;
        Some((stored, layer, kind))
    }

    /// A tensor's place. A checkpoint of a model without its output layer leaves out the first part of the
    /// names.
    fn place(&self, name: &str) -> Option<usize> {
        let short = || self.places.get(name.split_once('.')?.1);
        self.places.get(name).or_else(short).copied()
    }

    /// The error of a weight that is not there, or of the tensor with `number` of those that it is joined
    /// of.
    fn missing(&self, name: &str, number: usize) -> Error {
        let wanted = match self.index.format {
            Format::Checkpoint => self.checkpoint_name(name).map(|(_, wanted)| wanted),
            Format::Gguf => self.fused_name(name).map(|(wanted, _)| wanted),
        };
        let wanted = wanted.map_or_else(
            || name.to_owned(),
            |wanted| wanted.replacen('*', &number.to_string(), 1),
        );
        match self.index.foreign.iter().find(|f| f.name == wanted) {
            Some(foreign) => Error::unsupported(format!(
                "{wanted}: its element type is {}; supported in checkpoints are F32, F16, BF16",
                foreign.dtype
            )),
            None => Error::weights(wanted, "the tensor is missing"),
        }
    }
}
