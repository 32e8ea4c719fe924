//! Sound GGUF files: what is written is what is read, wherever the bytes are cut.

use decant::{
    error::{Error, ErrorKind},
    tensor::DType,
    weights::{Index, TensorStream, Value, gguf::Header},
};

use crate::support::{
    gguf::{Gguf, Meta},
    random::Random,
    read::{Loaded, read},
    scene::random_blocks,
};

/// A file with every value type and every element type, odd numbers of blocks, padding and a gap.
pub fn sample() -> Gguf {
    let mut random = Random(1);
    let mut file = Gguf::new()
        .meta("general.architecture", "llama")
        .meta("u8", u8::MAX)
        .meta("i8", i8::MIN)
        .meta("u16", u16::MAX)
        .meta("i16", i16::MIN)
        .meta("u32", u32::MAX)
        .meta("i32", i32::MIN)
        .meta("u64", u64::MAX)
        .meta("i64", i64::MIN)
        .meta("f32", 0.1f32)
        .meta("f64", 0.1f64)
        .meta("bool", true)
        .meta("empty text", "")
        .meta("list u8", &[0u8, 255][..])
        .meta("list i8", &[-128i8, 127][..])
        .meta("list u16", &[u16::MAX][..])
        .meta("list i16", &[i16::MIN][..])
        .meta("list u32", &[u32::MAX][..])
        .meta("list i32", &[i32::MIN, 7][..])
        .meta("list u64", &[i64::MAX as u64][..])
        .meta("list i64", &[i64::MIN][..])
        .meta("list f32", &[1.5f32, -2.0][..])
        .meta("list f64", &[0.1f64][..])
        .meta("list bool", &[true, false][..])
        .meta("list text", &["a", "", "größer", "\u{0}"][..])
        .meta("empty list", Meta::Array(8, 0, Vec::new()))
        .meta("text", "the last key".repeat(9).as_str());
    for (i, dtype) in DType::ALL.into_iter().enumerate() {
        let shape = [3 * dtype.block_len() as u64, 5];
        let blocks = random_blocks(dtype, 15, &mut random);
        file = file.blocks(&format!("tensor.{i}"), &shape, dtype, blocks);
    }
    file.tensor("vector", &[7], DType::F32, &random.values(7, 1.0))
        .tensor(
            "cube",
            &[32, 2, 3, 4],
            DType::Q8_0,
            &random.values(32 * 24, 1.0),
        )
}

fn same(file: &Gguf, loaded: &Loaded) {
    assert_eq!(loaded.tensors.len(), file.tensors.len());
    for (tensor, data) in file.tensors.iter().zip(&loaded.tensors) {
        assert_eq!(&tensor.data, data);
    }
}

#[test]
fn values_are_read_as_written() {
    let bytes = sample().build();
    let loaded = read(&bytes, Some(bytes.len() as u64), &[bytes.len()]).unwrap();
    same(&sample(), &loaded);
    let expected = [
        ("u8", Value::Unsigned(255)),
        ("i8", Value::Signed(-128)),
        ("u16", Value::Unsigned(65_535)),
        ("i16", Value::Signed(-32_768)),
        ("u32", Value::Unsigned(u32::MAX.into())),
        ("i32", Value::Signed(i32::MIN.into())),
        ("u64", Value::Unsigned(u64::MAX)),
        ("i64", Value::Signed(i64::MIN)),
        ("f32", Value::Float(0.1f32.into())),
        ("f64", Value::Float(0.1)),
        ("bool", Value::Bool(true)),
        ("empty text", Value::String(String::new())),
        ("list u8", Value::Bytes(vec![0, 255])),
        ("list i8", Value::Bytes(vec![128, 127])),
        ("list u16", Value::Integers(vec![65_535])),
        ("list i16", Value::Integers(vec![-32_768])),
        ("list u32", Value::Integers(vec![u32::MAX.into()])),
        ("list i32", Value::Integers(vec![i32::MIN.into(), 7])),
        ("list u64", Value::Integers(vec![i64::MAX])),
        ("list i64", Value::Integers(vec![i64::MIN])),
        ("list f32", Value::Floats(vec![1.5, -2.0])),
        ("list f64", Value::Floats(vec![0.1])),
        ("list bool", Value::Bools(vec![true, false])),
        ("empty list", Value::Strings(Vec::new())),
    ];
    for (key, value) in expected {
        assert_eq!(loaded.index.metadata.0.get(key), Some(&value), "{key}");
    }
    let texts = loaded.index.metadata.strings("list text").unwrap().unwrap();
    assert_eq!(texts, ["a", "", "größer", "\u{0}"]);
    assert_eq!(loaded.index.metadata.0.len(), sample().metadata.len());
}

#[test]
fn shapes_are_matrices_of_the_first_dimension() {
    let loaded = read(&sample().build(), None, &[usize::MAX]).unwrap();
    let shape = |name| {
        let mut specs = loaded.index.tensors.iter().map(|tensor| &tensor.spec);
        let spec = specs.find(|spec| spec.name == name).unwrap();
        (spec.rows, spec.columns)
    };
    assert_eq!(shape("vector"), (1, 7));
    assert_eq!(shape("tensor.0"), (5, 3));
    assert_eq!(shape("cube"), (24, 32));
}

#[test]
fn version_2_is_read_like_version_3() {
    let file = Gguf {
        version: 2,
        ..sample()
    };
    same(&file, &read(&file.build(), None, &[1000]).unwrap());
}

#[test]
fn any_cut_gives_the_same() {
    let file = sample();
    let bytes = file.build();
    let whole = read(&bytes, None, &[bytes.len()]).unwrap();
    let check = |lengths: &[usize]| {
        let cut = read(&bytes, None, lengths).unwrap();
        assert_eq!(cut.index.metadata.0, whole.index.metadata.0, "{lengths:?}");
        assert_eq!(cut.index.tensors, whole.index.tensors, "{lengths:?}");
        assert_eq!(
            cut.index.header_bytes, whole.index.header_bytes,
            "{lengths:?}"
        );
        assert_eq!(cut.tensors, whole.tensors, "{lengths:?}");
    };
    for cut in 1..bytes.len() {
        check(&[cut, usize::MAX]);
    }
    (1..200).for_each(|every| check(&[every]));
    let mut random = Random(3);
    for _ in 0..200 {
        let lengths: Vec<usize> = (0..400).map(|_| 1 + random.below(90)).collect();
        check(&lengths);
    }
}

#[test]
fn large_pieces_are_passed_on_in_place() {
    let file = Gguf::new().tensor("w", &[32, 64], DType::Q8_0, &Random(2).values(2048, 1.0));
    let bytes = file.build();
    let (index, used) = Header::new(None).push(&bytes).unwrap().unwrap();
    let mut pieces = Vec::new();
    let mut stream = TensorStream::new(&index);
    stream
        .push(&bytes[used..], &mut |_, _, blocks| {
            pieces.push(blocks.as_ptr_range());
            Ok(())
        })
        .unwrap();
    let data = index.tensors[0].offset as usize;
    assert_eq!(pieces, [bytes[data..].as_ptr_range()]);
}

#[test]
fn alignment_is_the_files_own() {
    for alignment in [1, 8, 32, 4096] {
        let values = Random(4).values(5, 1.0);
        let file = Gguf::new()
            .alignment(alignment)
            .tensor("a", &[5], DType::F16, &values)
            .tensor("b", &[5], DType::F32, &values);
        let loaded = read(&file.build(), None, &[13]).unwrap();
        same(&file, &loaded);
        for tensor in &loaded.index.tensors {
            assert!(tensor.offset.is_multiple_of(alignment.into()));
        }
    }
}

#[test]
fn tensors_are_in_the_order_of_their_data() {
    let mut file = Gguf::new()
        .tensor("first", &[8], DType::F32, &Random(5).values(8, 1.0))
        .tensor("second", &[8], DType::F32, &Random(6).values(8, 1.0));
    let bytes = file.build();
    let data = file.header().len().next_multiple_of(32);
    // The same data, listed backwards.
    file.tensors.reverse();
    file.tensors[0].offset = Some(32);
    file.tensors[1].offset = Some(0);
    let swapped = [&file.build()[..data], &bytes[data..]].concat();
    let loaded = read(&swapped, None, &[7]).unwrap();
    let names: Vec<&str> = loaded
        .index
        .tensors
        .iter()
        .map(|t| t.spec.name.as_str())
        .collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(
        loaded.tensors,
        [&file.tensors[1].data[..], &file.tensors[0].data]
    );
}

#[test]
fn what_follows_the_last_tensor_is_passed_over() {
    let mut bytes = sample().build();
    bytes.extend([0; 4096]);
    same(
        &sample(),
        &read(&bytes, Some(bytes.len() as u64), &[100]).unwrap(),
    );
    // A file of nothing but a vocabulary has no tensors and still is a file.
    let bytes = Gguf::new().meta("k", 1u32).build();
    assert!(read(&bytes, None, &[1]).unwrap().tensors.is_empty());
}

#[test]
fn an_error_of_the_receiver_ends_the_stream() {
    let bytes = sample().build();
    let (index, used) = Header::new(None).push(&bytes).unwrap().unwrap();
    let mut calls = 0;
    let failed = TensorStream::new(&index).push(&bytes[used..], &mut |_, _, _| {
        calls += 1;
        Err(Error::new(ErrorKind::DeviceLost, "gone"))
    });
    assert_eq!(failed.unwrap_err().kind(), &ErrorKind::DeviceLost);
    assert_eq!(calls, 1);
}

#[test]
fn a_complete_header_takes_no_more() {
    let bytes = sample().build();
    let mut header = Header::new(None);
    header.push(&bytes).unwrap().unwrap();
    header.finish().unwrap();
    assert_eq!(header.push(&[0]).unwrap_err().kind(), &ErrorKind::Internal);
}

/// As writers put it that fill in the keys of every file.
#[test]
fn a_split_of_no_parts_is_none() {
    let joined = |count: u16, files: usize| {
        let file = Gguf::new()
            .meta("split.no", 0u16)
            .meta("split.count", count);
        let index = read(&file.build(), None, &[usize::MAX]).unwrap().index;
        Index::join(vec![index; files])
    };
    assert!(joined(0, 1).is_ok());
    assert!(joined(1, 1).is_ok());
    for (count, files) in [(2, 1), (0, 2)] {
        let error = joined(count, files).unwrap_err().to_string();
        assert!(error.contains("split.count"), "{error}");
    }
}
