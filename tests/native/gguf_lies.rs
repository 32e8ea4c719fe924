//! Headers that lie: each lie is refused as soon as it has arrived, with the same error however the
//! bytes are cut and whether or not the size of the file is known, and the error names the culprit.

use decant::{
    error::{Error, ErrorKind},
    tensor::DType,
    weights::gguf::{Header, MAX_HEADER},
};

use crate::support::{
    gguf::{Gguf, Meta, Tensor, text},
    read::read,
};

/// The error of a header, at once or byte by byte; the end of the file is not needed to find it.
fn refusal(bytes: &[u8], file_size: Option<u64>) -> Error {
    let at_once = Header::new(file_size).push(bytes);
    let at_once = at_once.expect_err("a lie was believed");
    let mut header = Header::new(file_size);
    let by_byte = bytes.iter().find_map(|&byte| header.push(&[byte]).err());
    assert_eq!(by_byte.expect("a lie was believed"), at_once);
    at_once
}

/// Fails unless `file` is refused with an error that is about `name` and says `what`. An empty name
/// stands for `Unsupported`.
fn refused(file: &Gguf, name: &str, what: &str) {
    let bytes = file.build();
    for size in [None, Some(bytes.len() as u64)] {
        let error = refusal(&bytes, size);
        let kind = match name {
            "" => ErrorKind::Unsupported,
            name => ErrorKind::InvalidWeights { name: name.into() },
        };
        assert_eq!(error.kind(), &kind, "{error}");
        assert!(
            error.to_string().contains(what),
            "{error}\ndoes not say\n{what}"
        );
    }
}

fn base() -> Gguf {
    Gguf::new().meta("general.architecture", "llama")
}

/// One entry with these bytes for a value.
fn entry(kind: u32, value: &[u8]) -> Gguf {
    let mut file = base();
    file.metadata.push((b"key".into(), kind, value.into()));
    file
}

/// One list with these bytes for items.
fn list(kind: u32, count: u64, items: &[u8]) -> Gguf {
    base().meta("key", Meta::Array(kind, count, items.into()))
}

/// One tensor `w`; `change` makes it lie.
fn tensor(dtype: DType, shape: &[u64], change: impl Fn(&mut Tensor)) -> Gguf {
    let mut file = base().blocks("w", shape, dtype, vec![0; 64]);
    change(&mut file.tensors[0]);
    file
}

#[test]
fn beginnings() {
    let header = |change: fn(&mut Gguf)| {
        let mut file = base();
        change(&mut file);
        file
    };
    let about = "GGUF header";
    refused(
        &header(|f| f.magic = *b"<!DO"),
        about,
        "begins with \"<!DO\"",
    );
    refused(
        &header(|f| f.magic = *b"GGU\0"),
        about,
        "begins with \"GGU\\x00\"",
    );
    refused(&header(|f| f.version = 0), "", "version 0;");
    refused(&header(|f| f.version = 1), "", "version 1;");
    refused(
        &header(|f| f.version = 99),
        "",
        "version 99; versions 2 and 3",
    );
    refused(
        &header(|f| f.version = 3 << 24),
        "",
        "version 3 in big-endian order",
    );
    refused(
        &header(|f| f.metadata_count = Some(1 << 63)),
        about,
        "9223372036854775808 metadata entries at byte 24",
    );
    refused(
        &header(|f| f.tensor_count = Some(1 << 63)),
        about,
        "9223372036854775808 tensors at byte 16",
    );
    // So many that their bytes, not their number, would wrap.
    refused(
        &header(|f| f.tensor_count = Some(u64::MAX / 8)),
        about,
        " tensors at ",
    );
    refused(
        &header(|f| f.metadata_count = Some(MAX_HEADER)),
        about,
        " metadata entries at ",
    );
}

#[test]
fn keys() {
    refused(&base().meta("", 1u32), "metadata entry 2 of 2", "empty");
    refused(&base().meta("a", 1u32).meta("a", 1u32), "a", "there twice");
    let mut file = base();
    file.metadata.push((vec![0xff, 0xfe], 4, vec![0; 4]));
    refused(&file, "metadata entry 2 of 2", "not UTF-8");
    refused(
        &base().meta(&"k".repeat(65_536), 1u32),
        "metadata entry 2 of 2",
        "65536 bytes, at most 65535",
    );
    let mut file = base().header();
    file[16] = 2; // a second entry, whose key is as long as nothing can be
    file.extend((1u64 << 63).to_le_bytes());
    for size in [None, Some(file.len() as u64)] {
        let error = refusal(&file, size).to_string();
        assert!(
            error.contains("9223372036854775808 bytes of text at byte"),
            "{error}"
        );
    }
}

#[test]
fn values() {
    refused(&entry(99, &[0; 16]), "key", "unknown value type 99");
    refused(&entry(13, &[0; 16]), "key", "unknown value type 13");
    refused(&entry(7, &[2]), "key", "2 as a truth value");
    refused(
        &entry(8, &(1u64 << 63).to_le_bytes()),
        "key",
        "bytes of text",
    );
    let mut value = Vec::new();
    text(&mut value, &[b'a', 0xc3, b'b']);
    refused(&entry(8, &value), "key", "not UTF-8");
}

#[test]
fn lists() {
    for kind in [0, 4, 7, 8, 12] {
        refused(
            &list(kind, 1 << 62, &[0; 8]),
            "key",
            "4611686018427387904 list items",
        );
        refused(
            &list(kind, MAX_HEADER + 1, &[0; 8]),
            "key",
            "67108865 list items",
        );
    }
    refused(&list(9, 1, &[0; 32]), "", "key: lists of lists");
    refused(&list(99, 1, &[0; 32]), "key", "unknown value type 99");
    refused(&list(7, 3, &[0, 1, 2]), "key", "2 as a truth value");
    refused(
        &list(10, 1, &[0xff; 8]),
        "key",
        "18446744073709551615 in a list",
    );
    let mut items = Vec::new();
    text(&mut items, b"sound");
    text(&mut items, &[0xff]);
    refused(&list(8, 2, &items), "key", "not UTF-8");
    // A list of unsigned bytes is sound, but nothing reads it as numbers.
    let key = "tokenizer.ggml.token_type";
    let bytes = base().meta(key, &[1u8, 1, 3][..]).build();
    let index = read(&bytes, None, &[1]).unwrap().index;
    let error = index.metadata.integers(key).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidWeights { name: key.into() }
    );
}

#[test]
fn alignments() {
    let about = "general.alignment";
    for alignment in [0, 3, 24, u32::MAX] {
        let file = base().meta(about, alignment);
        refused(&file, about, &format!("{alignment}, a power of two"));
    }
    refused(&base().meta(about, "32"), about, "expected an integer");
    refused(&base().meta(about, -32i32), about, "found -32");
    refused(&base().meta(about, 1u64 << 32), about, "found 4294967296");
}

#[test]
fn tensor_names() {
    let named = |name: &[u8]| tensor(DType::F32, &[16], |t| t.name = name.into());
    refused(&named(b""), "tensor 1 of 1", "empty");
    refused(&named(&[b'n'; 65]), "tensor 1 of 1", "65 bytes, at most 64");
    refused(&named(&[0xff]), "tensor 1 of 1", "not UTF-8");
    read(&named(&[b'n'; 64]).build(), None, &[9]).unwrap();
    let twice = named(b"w").blocks("w", &[16], DType::F32, vec![0; 64]);
    refused(&twice, "w", "two tensors have this name");
}

#[test]
fn shapes() {
    let shape = |shape: &[u64]| tensor(DType::F32, shape, |_| ());
    refused(&shape(&[]), "w", "0 dimensions, 1 to 4");
    refused(&shape(&[1; 5]), "w", "5 dimensions");
    let dimensions = |n| tensor(DType::F32, &[16], |t| t.dimensions = Some(n));
    refused(&dimensions(u32::MAX), "w", "4294967295 dimensions");
    refused(&shape(&[0]), "w", "a dimension of 0");
    refused(&shape(&[16, 0, 4]), "w", "a dimension of 0 in [16, 0, 4]");
    refused(
        &shape(&[(1 << 42) + 1, 1 << 22]),
        "w",
        "more than 2^64 bytes",
    );
    refused(
        &shape(&[1 << 63, 1 << 63, 1 << 63, 1 << 63]),
        "w",
        "more than 2^64",
    );
    refused(&shape(&[1 << 62]), "w", "more than 2^64 bytes");
    refused(&shape(&[1 << 30]), "", "w: a tensor of 4294967296 bytes");
    refused(
        &shape(&[1 << 32, 1 << 20]),
        "",
        "at most 4294967295 are supported",
    );
    refused(
        &tensor(DType::Q4_0, &[48, 2], |_| ()),
        "w",
        "rows of 48 values do not fill",
    );
    refused(
        &tensor(DType::Q8_0, &[33, 32], |_| ()),
        "w",
        "rows of 33 values",
    );
    refused(
        &tensor(DType::Q4_1, &[16, 2], |_| ()),
        "w",
        "blocks of Q4_1, which hold 32",
    );
    // Whole blocks in all, and none in a row.
    refused(
        &tensor(DType::Q6_K, &[64, 8], |_| ()),
        "w",
        "rows of 64 values do not fill blocks of Q6_K, which hold 256",
    );
}

#[test]
fn element_types() {
    let supported = "supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4";
    for (number, name) in [
        (16, "IQ2_XXS (number 16)"),
        (4, "Q4_2 (number 4)"),
        (31, "Q4_0_4_4 (number 31)"),
        (40, "NVFP4 (number 40)"),
        (99, "the unknown number 99"),
        (u32::MAX, "the unknown number 4294967295"),
    ] {
        let file = tensor(DType::F32, &[64, 8], |t| t.kind = number);
        refused(
            &file,
            "",
            &format!("w: its element type is {name}; {supported}"),
        );
    }
}

#[test]
fn offsets() {
    let at = |offset| tensor(DType::F32, &[16], |t| t.offset = Some(offset));
    refused(
        &at(16),
        "w",
        "offset 16 is not a multiple of the alignment 32",
    );
    refused(&at(u64::MAX - 31), "w", "64 bytes at ");
    let file = at((1 << 63) - 32).meta("general.alignment", 1u32 << 31);
    refused(&file, "w", "not a multiple");
    let mut file = at(0).blocks("v", &[16], DType::F32, vec![0; 64]);
    file.tensors[1].offset = Some(32);
    refused(&file, "v", "inside w, which ends at");
    file.tensors[1].offset = Some(0);
    refused(&file, "v", "inside w");
    file.tensors[1].offset = Some(64);
    read(&file.build(), None, &[9]).unwrap();
}

#[test]
fn a_file_too_short_is_refused_before_its_data_is_fetched() {
    let file = tensor(DType::F32, &[16], |_| ()).blocks("v", &[16], DType::F32, vec![0; 64]);
    let (header, size) = (file.header(), file.build().len() as u64);
    let push = |size| Header::new(Some(size)).push(&header);
    assert!(push(size).unwrap().is_some());
    let error = push(size - 1).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidWeights { name: "v".into() }
    );
    assert!(error.to_string().contains("cut short"), "{error}");
    // Without the size, the same file is refused at its end.
    let bytes = file.build();
    let error = read(&bytes[..bytes.len() - 1], None, &[50]).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidWeights { name: "v".into() }
    );
    assert!(error.to_string().contains("63 of the 64 bytes"), "{error}");
    // An offset past the end is the same lie.
    let past = tensor(DType::F32, &[16], |t| t.offset = Some(1 << 40)).build();
    let error = refusal(&past, Some(past.len() as u64));
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidWeights { name: "w".into() }
    );
    let error = read(&past, None, &[50]).unwrap_err();
    assert!(
        error.to_string().contains("after 0 of the 64 bytes"),
        "{error}"
    );
}

#[test]
fn headers_have_a_largest_size() {
    // In a file of a terabyte a text may not take more than what is left of a header.
    let mut bytes = entry(8, &MAX_HEADER.to_le_bytes()).header();
    bytes.extend([b'a'; 64]);
    for size in [None, Some(1 << 40)] {
        let error = refusal(&bytes, size).to_string();
        assert!(error.contains("67108864 in all"), "{error}");
    }
}

#[test]
fn a_refused_header_stays_refused() {
    let bytes = entry(7, &[2]).build();
    let mut header = Header::new(None);
    let first = header.push(&bytes).unwrap_err();
    assert_eq!(header.push(&[0; 100]).unwrap_err(), first);
    assert!(header.finish().is_err());
}

#[test]
fn integers_of_any_width_are_sound() {
    for file in [
        base().meta("n", 30u32),
        base().meta("n", 30u64),
        base().meta("n", 30u8),
    ] {
        let index = read(&file.build(), None, &[5]).unwrap().index;
        assert_eq!(index.metadata.u32("n").unwrap(), Some(30));
    }
}
