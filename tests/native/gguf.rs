//! Sound GGUF files: what is written is what is read, wherever the bytes are cut.

use decant::{
    tensor::DType,
    weights::{Index, TensorStream, Value, gguf::Header},
};

use crate::support::{gguf::Gguf, random::Random};

/// One file with every value type and every element type, odd block counts and padding.
pub fn sample() -> Gguf {
    let mut random = Random(1);
    let mut file = Gguf::new()
        .meta("general.architecture", "llama")
        .meta("u8", 255u8);
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        let (columns, rows) = (dtype.block_len() * 3, 5);
        let values = random.values(columns * rows, 2.0);
        file = file.tensor(
            &format!("tensor.{i}"),
            &[columns as u64, rows as u64],
            dtype,
            &values,
        );
    }
    file
}

#[test]
fn reads_what_was_written() {
    let file = sample();
    let bytes = file.build();
    let mut header = Header::new(Some(bytes.len() as u64));
    let (index, used): (Index, usize) = header.push(&bytes).unwrap().unwrap();
    assert_eq!(used, file.header().len());
    assert_eq!(index.metadata.0["u8"], Value::Unsigned(255));
    let mut stream = TensorStream::new(&index);
    let mut data = vec![Vec::new(); index.tensors.len()];
    stream
        .push(&bytes[used..], &mut |tensor, _, blocks| {
            data[tensor].extend_from_slice(blocks);
            Ok(())
        })
        .unwrap();
    stream.finish().unwrap();
    for (tensor, data) in file.tensors.iter().zip(data) {
        assert_eq!(tensor.data, data);
    }
}
