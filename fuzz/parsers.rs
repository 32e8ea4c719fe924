//! What the fuzz targets do with their bytes: read them as a file, and use what was read as a load would.
//!
//! A function here returns whatever the bytes are; it must not panic, hang, or allocate far beyond them.
//! The tests replay the seeds through the same functions.

use decant::{
    error::Result,
    load::vocabulary,
    model::{Graph, GraphOptions, describe},
    tokenizer::Tokenizer,
    weights::{Format, Index, Metadata, TensorStream, gguf, safetensors},
};

/// A GGUF file: its header in pieces, its tensors, its vocabulary and its model.
pub fn gguf(data: &[u8]) {
    let mut header = gguf::Header::new(Some(data.len() as u64));
    let Some((index, used)) = in_pieces(data, |piece| header.push(piece)) else {
        return;
    };
    tensors(&index, &data[used..]);
    if let Ok(vocabulary) = vocabulary(&index.metadata)
        && let Ok(tokenizer) = Tokenizer::from_vocabulary(vocabulary)
    {
        use_tokenizer(&tokenizer);
    }
    model(index);
}

/// A safetensors file, or the index of several.
pub fn safetensors(data: &[u8]) {
    let _ = safetensors::Shards::from_json(data);
    let mut header = safetensors::Header::new(Some(data.len() as u64));
    if let Some((index, used)) = in_pieces(data, |piece| header.push(piece)) {
        tensors(&index, &data[used..]);
    }
}

/// The header that `push` reads from `data`, and its length. The data comes in two pieces; the last byte says
/// where they part, as the first ones are the same in all files that get far.
fn in_pieces(
    data: &[u8],
    mut push: impl FnMut(&[u8]) -> Result<Option<(Index, usize)>>,
) -> Option<(Index, usize)> {
    let cut = data.len() * usize::from(data.last().copied().unwrap_or(0)) / 256;
    let (first, second) = data.split_at(cut);
    match push(first).ok()? {
        Some(found) => Some(found),
        None => push(second).ok()?.map(|(index, used)| (index, cut + used)),
    }
}

/// `tokenizer.json`, and after a byte of zero `tokenizer_config.json`.
pub fn tokenizer(data: &[u8]) {
    let mut files = data.splitn(2, |&byte| byte == 0);
    let (tokenizer, config) = (files.next().unwrap_or_default(), files.next());
    if let Ok(tokenizer) = Tokenizer::from_json(tokenizer, config) {
        use_tokenizer(&tokenizer);
    }
}

/// `config.json`.
pub fn config(data: &[u8]) {
    if let Ok(metadata) = Metadata::from_json("config.json", data) {
        let _ = describe(&metadata, Format::Checkpoint);
        let index = Index {
            format: Format::Checkpoint,
            metadata,
            ..Index::default()
        };
        model(index);
    }
}

/// Reads the tensors of `index` from the rest of their file.
fn tensors(index: &Index, data: &[u8]) {
    let mut stream = TensorStream::new(index);
    let read = stream.push(data, &mut |tensor, first, blocks| {
        let spec = &index.tensors[tensor].spec;
        let count = blocks.len() / spec.dtype.block_bytes();
        assert!(first + count <= spec.blocks(), "{}", spec.name);
        Ok(())
    });
    if read.is_ok() {
        let _ = stream.finish();
    }
}

/// Encodes and decodes a little of everything.
fn use_tokenizer(tokenizer: &Tokenizer) {
    for text in ["", "Hello  world! 123", " <s>ä中\u{1F600}\n\t'll\u{0}"] {
        for special in [false, true] {
            if let Ok(ids) = tokenizer.encode(text, special) {
                assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
                let _ = tokenizer.decode(&ids, special);
            }
        }
    }
    let some: Vec<u32> = (0..tokenizer.len().min(300) as u32)
        .chain([u32::MAX])
        .collect();
    let _ = tokenizer.decode(&some, false);
}

/// Describes a model and its forward pass.
fn model(index: Index) {
    let options = GraphOptions {
        context_length: Some(16),
        quantise: None,
    };
    if let Ok(graph) = Graph::from_index(index, options) {
        let _ = graph.tape(4, 4);
    }
}
