//! Reads whole GGUF files through the streaming reader, cut in the ways that tests want.

use decant::{
    error::Result,
    weights::{Index, TensorStream, gguf::Header},
};

/// An index and the bytes of each of its tensors.
#[derive(Debug)]
pub struct Loaded {
    pub index: Index,
    pub tensors: Vec<Vec<u8>>,
}

/// Reads `bytes` in pieces of `lengths`, the last of which repeats.
///
/// # Panics
/// If a piece that comes out is not what an executor may be given.
pub fn read(bytes: &[u8], file_size: Option<u64>, lengths: &[usize]) -> Result<Loaded> {
    let mut header = Header::new(file_size);
    let mut loaded: Option<(Loaded, TensorStream)> = None;
    let mut lengths = lengths.iter().copied().chain(std::iter::repeat(
        *lengths.last().expect("a length of pieces"),
    ));
    let mut rest = bytes;
    while !rest.is_empty() {
        let (mut piece, later) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        if loaded.is_none() {
            let Some((index, used)) = header.push(piece)? else {
                continue;
            };
            let tensors = vec![Vec::new(); index.tensors.len()];
            let stream = TensorStream::new(&index);
            loaded = Some((Loaded { index, tensors }, stream));
            piece = &piece[used..];
        }
        if let Some((Loaded { index, tensors }, stream)) = &mut loaded {
            stream.push(piece, &mut |tensor, first, blocks| {
                let (spec, data) = (&index.tensors[tensor].spec, &mut tensors[tensor]);
                let block = spec.dtype.block_bytes();
                assert_eq!(first * block, data.len(), "{}: the next block", spec.name);
                assert!(first.is_multiple_of(2), "{}: an even block", spec.name);
                assert!(!blocks.is_empty() && blocks.len().is_multiple_of(block));
                data.extend_from_slice(blocks);
                let odd = !(data.len() / block).is_multiple_of(2);
                assert!(!odd || data.len() == spec.bytes(), "{}: odd end", spec.name);
                Ok(())
            })?;
        }
    }
    header.finish()?;
    let (loaded, stream) = loaded.expect("a complete header gave its index");
    stream.finish()?;
    Ok(loaded)
}
