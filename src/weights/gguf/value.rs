//! Metadata values: scalars at once, lists as their items arrive.

use super::reader::{Reader, Step};
use crate::{
    error::{Error, Result},
    weights::Value,
};

/// The types of GGUF, by the numbers that stand for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    /// In the order of their numbers.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// Reads the number of a type.
    pub fn read(reader: &mut Reader) -> Step<Self> {
        let number = reader.u32()?;
        let kind = Self::ALL.get(number as usize).copied();
        kind.ok_or_else(|| {
            let message = format!("unknown value type {number}, GGUF defines 0 to 12");
            reader.error(message).into()
        })
    }

    /// The bytes of an item, or the fewest where items differ.
    const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::String | Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Array => 12,
        }
    }
}

/// Reads one value that is not a list.
pub(super) fn scalar(kind: Kind, reader: &mut Reader) -> Step<Value> {
    Ok(match kind {
        Kind::U8 => Value::Unsigned(reader.array::<1>()?[0].into()),
        Kind::I8 => Value::Signed(i8::from_le_bytes(reader.array()?).into()),
        Kind::U16 => Value::Unsigned(u16::from_le_bytes(reader.array()?).into()),
        Kind::I16 => Value::Signed(i16::from_le_bytes(reader.array()?).into()),
        Kind::U32 => Value::Unsigned(u32::from_le_bytes(reader.array()?).into()),
        Kind::I32 => Value::Signed(i32::from_le_bytes(reader.array()?).into()),
        Kind::U64 => Value::Unsigned(u64::from_le_bytes(reader.array()?)),
        Kind::I64 => Value::Signed(i64::from_le_bytes(reader.array()?)),
        Kind::F32 => Value::Float(f32::from_le_bytes(reader.array()?).into()),
        Kind::F64 => Value::Float(f64::from_le_bytes(reader.array()?)),
        Kind::Bool => {
            let [byte] = reader.array()?;
            Value::Bool(truth(byte, reader)?)
        }
        Kind::String => Value::String(reader.text(u64::MAX)?.into()),
        Kind::Array => return Err(Error::internal("a list is not a scalar").into()),
    })
}

/// A list whose items are still arriving.
pub(super) struct List {
    kind: Kind,
    left: u64,
    values: Value,
}

impl List {
    /// Reads the type and number of the items. Nothing is reserved for them: the number is the
    /// file's claim.
    pub fn begin(reader: &mut Reader, key: &str) -> Step<Self> {
        let kind = Kind::read(reader)?;
        let values = match kind {
            Kind::U8 | Kind::I8 => Value::Bytes(Vec::new()),
            Kind::U16 | Kind::I16 | Kind::U32 | Kind::I32 | Kind::U64 | Kind::I64 => {
                Value::Integers(Vec::new())
            }
            Kind::F32 | Kind::F64 => Value::Floats(Vec::new()),
            Kind::Bool => Value::Bools(Vec::new()),
            Kind::String => Value::Strings(Vec::new()),
            Kind::Array => {
                let message = format!("{key}: lists of lists are not supported");
                return Err(Error::unsupported(message).into());
            }
        };
        let left = reader.count(kind.bytes() as u64, "list items")?;
        Ok(Self { kind, left, values })
    }

    /// Takes the items that have arrived; the list, when there are no more to come.
    pub fn read(&mut self, reader: &mut Reader) -> Step<Value> {
        let size = self.kind.bytes();
        while self.left > 0 {
            if let Value::Strings(texts) = &mut self.values {
                let text = reader.text(u64::MAX)?;
                reserve(texts, 1, self.left);
                texts.push(text.into());
                self.left -= 1;
            } else {
                let items = self.left.min((reader.arrived() / size) as u64).max(1);
                let bytes = reader.bytes(items as usize * size)?;
                self.extend(bytes, reader)?;
                self.left -= items;
            }
            reader.commit();
        }
        Ok(std::mem::replace(
            &mut self.values,
            Value::Bytes(Vec::new()),
        ))
    }

    /// Appends the items in `bytes`.
    fn extend(&mut self, bytes: &[u8], reader: &Reader) -> Result<()> {
        let arrived = bytes.len() / self.kind.bytes();
        match &mut self.values {
            Value::Bytes(items) => reserve(items, arrived, self.left),
            Value::Bools(items) => reserve(items, arrived, self.left),
            Value::Floats(items) => reserve(items, arrived, self.left),
            Value::Integers(items) => reserve(items, arrived, self.left),
            _ => {}
        }
        match &mut self.values {
            Value::Bytes(items) => items.extend_from_slice(bytes),
            Value::Bools(items) => {
                for &byte in bytes {
                    items.push(truth(byte, reader)?);
                }
            }
            Value::Floats(items) if self.kind == Kind::F32 => {
                items.extend(each(bytes, f32::from_le_bytes).map(f64::from));
            }
            Value::Floats(items) => items.extend(each(bytes, f64::from_le_bytes)),
            Value::Integers(items) => match self.kind {
                Kind::U16 => items.extend(each(bytes, u16::from_le_bytes).map(i64::from)),
                Kind::I16 => items.extend(each(bytes, i16::from_le_bytes).map(i64::from)),
                Kind::U32 => items.extend(each(bytes, u32::from_le_bytes).map(i64::from)),
                Kind::I32 => items.extend(each(bytes, i32::from_le_bytes).map(i64::from)),
                Kind::I64 => items.extend(each(bytes, i64::from_le_bytes)),
                _ => {
                    for item in each(bytes, u64::from_le_bytes) {
                        items.push(i64::try_from(item).map_err(|_| {
                            reader
                                .error(format!("{item} in a list; the largest allowed is 2^63 - 1"))
                        })?);
                    }
                }
            },
            _ => return Err(Error::internal("a list of neither numbers nor text")),
        }
        Ok(())
    }
}

/// Makes room for `more` items of the `left` that are to come. Room is doubled, but never beyond what
/// the list claims to be, so that in the end none is left over.
fn reserve<T>(items: &mut Vec<T>, more: usize, left: u64) {
    if items.capacity() - items.len() < more {
        let double = (items.len() as u64).min(left) as usize;
        items.reserve_exact(double.max(more));
    }
}

/// A truth value is a byte of 0 or 1.
fn truth(byte: u8, reader: &Reader) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.error(format!("{byte} as a truth value; 0 and 1 are allowed"))),
    }
}

/// Items of `N` bytes.
fn each<'a, const N: usize, T>(
    bytes: &'a [u8],
    convert: impl Fn([u8; N]) -> T + 'a,
) -> impl Iterator<Item = T> + 'a {
    let (items, _) = bytes.as_chunks::<N>();
    items.iter().map(move |&item| convert(item))
}
