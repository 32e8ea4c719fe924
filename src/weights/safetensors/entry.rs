//! The header's JSON: tensor entries, each checked as it is read.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    error::{Error, Result},
    tensor::{DType, WeightSpec},
    weights::MAX_TENSOR,
};

/// The most dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;

/// All tensors, in the order of the file.
pub(super) struct Entries(pub Vec<Entry>);

/// One tensor as the header describes it.
pub(super) struct Entry {
    pub name: String,
    dtype: Box<str>,
    shape: Shape,
    /// Begin and end, from the end of the header.
    pub offsets: [u64; 2],
}

struct Shape {
    lengths: [u64; MAX_DIMENSIONS],
    dimensions: usize,
}

impl Entry {
    /// The shape as a matrix; the last dimension is the one whose values are neighbours. The inner result
    /// is the name of the element type if it is none of ours.
    pub fn spec(&self) -> Result<std::result::Result<WeightSpec, String>> {
        let fail = |message: String| Err(Error::weights(&self.name, message));
        let dtype = match &*self.dtype {
            "F32" => DType::F32,
            "F16" => DType::F16,
            "BF16" => DType::BF16,
            other => return Ok(Err(other.into())),
        };
        let shape = &self.shape.lengths[..self.shape.dimensions];
        if shape.contains(&0) {
            return fail(format!("a dimension of 0 in {shape:?}"));
        }
        let (columns, outer) = match shape.split_last() {
            Some((columns, outer)) => (*columns, outer),
            None => (1, &[][..]),
        };
        let rows = outer.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let bytes = rows
            .and_then(|rows| rows.checked_mul(columns))
            .and_then(|values| values.checked_mul(dtype.block_bytes() as u64));
        let (Some(rows), Some(bytes)) = (rows, bytes) else {
            return fail(format!("the shape {shape:?} has more than 2^64 bytes"));
        };
        let [begin, end] = self.offsets;
        if end - begin != bytes {
            return fail(format!(
                "{} bytes of data for the shape {shape:?} of {}, which needs {bytes}",
                end - begin,
                dtype.name()
            ));
        }
        match (usize::try_from(rows), usize::try_from(columns)) {
            (Ok(rows), Ok(columns)) if bytes <= MAX_TENSOR => Ok(Ok(WeightSpec {
                name: self.name.clone(),
                dtype,
                rows,
                columns,
            })),
            _ => Err(Error::unsupported(format!(
                "{}: a tensor of {bytes} bytes, at most {MAX_TENSOR} are supported",
                self.name
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Tensors;

        impl<'de> Visitor<'de> for Tensors {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let fields: Fields = map
                        .next_value()
                        .map_err(|error| de::Error::custom(format!("{name}: {error}")))?;
                    entries.push(Entry {
                        name,
                        dtype: fields.dtype,
                        shape: fields.shape,
                        offsets: fields.data_offsets,
                    });
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Tensors)
    }
}

/// What is said about a tensor. Something else beside it could change what the bytes mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    dtype: Box<str>,
    shape: Shape,
    data_offsets: [u64; 2],
}

/// Read by hand, so that a list without end takes no memory.
impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Lengths;

        impl<'de> Visitor<'de> for Lengths {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a list of at most {MAX_DIMENSIONS} lengths")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Shape, A::Error> {
                let mut shape = Shape {
                    lengths: [1; MAX_DIMENSIONS],
                    dimensions: 0,
                };
                while let Some(length) = list.next_element()? {
                    let Some(place) = shape.lengths.get_mut(shape.dimensions) else {
                        return Err(de::Error::invalid_length(shape.dimensions + 1, &self));
                    };
                    *place = length;
                    shape.dimensions += 1;
                }
                Ok(shape)
            }
        }

        deserializer.deserialize_seq(Lengths)
    }
}
