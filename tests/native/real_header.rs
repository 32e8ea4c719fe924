//! The header of the real model, in pieces as small as can be.

use std::{fs::File, io::Read};

use decant::{tensor::DType, weights::gguf::Header};

use crate::support::model::real_model;

#[test]
fn the_real_header_is_read() {
    let Some(path) = real_model() else { return };
    let mut file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let mut bytes = vec![0; 2 << 20];
    file.read_exact(&mut bytes).unwrap();
    let mut header = Header::new(Some(size));
    // One byte at a time: work that grew with what has already arrived would not end today.
    let mut pieces = bytes.chunks(1);
    let (index, used) = pieces
        .find_map(|piece| header.push(piece).unwrap())
        .unwrap();
    assert_eq!(used, 1);
    assert_eq!(index.header_bytes, 1_785_664);
    assert_eq!(index.metadata.0.len(), 33);
    assert_eq!(
        index.metadata.str("general.architecture").unwrap(),
        Some("llama")
    );
    assert_eq!(
        index.metadata.f32("llama.rope.freq_base").unwrap(),
        Some(100_000.0)
    );
    let list = |key| index.metadata.strings(key).unwrap().unwrap();
    assert_eq!(list("tokenizer.ggml.tokens").len(), 49_152);
    assert_eq!(list("tokenizer.ggml.tokens")[1], "<|im_start|>");
    assert_eq!(list("tokenizer.ggml.merges").len(), 48_900);
    assert_eq!(list("tokenizer.ggml.merges")[0], "Ġ t");
    let kinds = index
        .metadata
        .integers("tokenizer.ggml.token_type")
        .unwrap()
        .unwrap();
    assert_eq!((kinds.len(), kinds[0]), (49_152, 3));
    assert_eq!(index.tensors.len(), 272);
    let tensor = |name: &str| {
        let mut tensors = index.tensors.iter();
        tensors.find(|tensor| tensor.spec.name == name).unwrap()
    };
    let embedding = tensor("token_embd.weight");
    assert_eq!(embedding.spec.dtype, DType::Q8_0);
    assert_eq!((embedding.spec.rows, embedding.spec.columns), (49_152, 576));
    let down = tensor("blk.0.ffn_down.weight");
    assert_eq!(down.spec.dtype, DType::Q4_1);
    assert_eq!((down.spec.rows, down.spec.columns), (576, 1536));
    let last = index.tensors.last().unwrap();
    assert_eq!(last.offset + last.spec.bytes() as u64, size);
}
