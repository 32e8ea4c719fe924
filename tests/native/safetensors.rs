//! Safetensors headers: sound ones however they are cut, and lies, each refused by name.

use decant::{
    error::{Error, ErrorKind},
    tensor::DType,
    weights::{
        Format, Index,
        safetensors::{Header, MAX_HEADER, Shards},
    },
};

use crate::support::{mutate::mutate, random::Random, safetensors::Safetensors};

fn sound() -> Safetensors {
    Safetensors::default()
        .tensor("b", "F32", &[3, 2], vec![1; 24])
        .tensor("mask", "BOOL", &[1, 1, 5], vec![2; 5])
        .tensor("a", "BF16", &[2, 2, 3], vec![3; 24])
        .tensor("scalar", "F16", &[], vec![4; 2])
}

/// The index of a file in pieces of `piece` bytes.
fn index(file: &[u8], size: Option<u64>, piece: usize) -> Result<Option<(Index, usize)>, Error> {
    let mut header = Header::new(size);
    let mut taken = 0;
    for piece in file.chunks(piece) {
        if let Some((index, used)) = header.push(piece)? {
            return Ok(Some((index, taken + used)));
        }
        taken += piece.len();
    }
    header.finish().map(|()| None)
}

#[test]
fn any_cut_gives_the_same() {
    let file = sound().build();
    let size = file.len() as u64;
    for piece in (1..30).chain([1 << 20]) {
        for size in [None, Some(size)] {
            let (index, used) = index(&file, size, piece).unwrap().unwrap();
            assert_eq!(index.format, Format::Checkpoint);
            assert_eq!(used as u64, index.header_bytes);
            let found = index.tensors.iter().map(|tensor| {
                let spec = &tensor.spec;
                let at = tensor.offset - index.header_bytes;
                (&*spec.name, spec.dtype, spec.rows, spec.columns, at)
            });
            let expected = [
                ("b", DType::F32, 3, 2, 0),
                ("a", DType::BF16, 4, 3, 29),
                ("scalar", DType::F16, 1, 1, 53),
            ];
            assert_eq!(found.collect::<Vec<_>>(), expected);
            assert_eq!(index.foreign.len(), 1);
            assert_eq!(index.foreign[0].dtype, "BOOL");
        }
    }
}

#[test]
fn a_padded_header_and_a_file_without_tensors_are_sound() {
    let padded = Safetensors {
        header: Some(r#"{"__metadata__":{"format":"pt"}}      "#.into()),
        ..Safetensors::default()
    };
    let file = padded.build();
    let (index, used) = index(&file, Some(file.len() as u64), 5).unwrap().unwrap();
    assert!(index.tensors.is_empty());
    assert_eq!(used, file.len());
}

/// Fails unless `file` is refused about `name`, saying `what`, at once and byte by byte. `Unsupported` for
/// an empty name.
fn refused(file: &Safetensors, size: Option<u64>, name: &str, what: &str) {
    let file = file.build();
    for piece in [1, file.len()] {
        let error = index(&file, size, piece).expect_err("a lie was believed");
        let kind = match name {
            "" => ErrorKind::Unsupported,
            name => ErrorKind::InvalidWeights { name: name.into() },
        };
        assert_eq!(error.kind(), &kind, "{error}");
        let message = error.to_string();
        assert!(message.contains(what), "{message}\ndoes not say\n{what}");
    }
}

const HEADER: &str = "safetensors header";

#[test]
fn lengths() {
    let mut file = sound();
    for length in [MAX_HEADER + 1, 1 << 62, u64::MAX] {
        file.length = Some(length);
        refused(&file, None, HEADER, "at most");
    }
    file.length = Some(MAX_HEADER);
    let size = file.build().len() as u64;
    refused(&file, Some(size), HEADER, "the file has");
    refused(&file, None, HEADER, "cut short");
    let whole = sound().build();
    let size = whole.len() as u64;
    refused(&sound(), Some(size - 1), HEADER, "the file at");
    refused(&sound(), Some(size + 1), HEADER, "the file at");
    for length in [0, 1, 7, 8, 100] {
        let error = index(&whole[..length], None, 3).unwrap_err();
        assert!(error.to_string().contains("cut short"), "{error}");
    }
}

fn header(json: &str) -> Safetensors {
    Safetensors {
        header: Some(json.into()),
        ..sound()
    }
}

#[test]
fn headers_that_are_no_headers() {
    for json in ["", "[]", "7", "{", r#"{"a":1}"#, r#"{"a":{}}"#, "\u{1}{}"] {
        refused(&header(json), None, HEADER, "");
    }
    let deep = format!(r#"{{"__metadata__":{}"#, "[".repeat(100_000));
    refused(&header(&deep), None, HEADER, "EOF");
}

#[test]
fn entries() {
    let lie = |entry: &str, name: &str, what: &str| {
        refused(
            &header(&format!(r#"{{"t":{{{entry}}}}}"#)),
            None,
            name,
            what,
        );
    };
    let offsets = r#""data_offsets":[0,8]"#;
    lie(
        &format!(r#""dtype":"F32","shape":[2],{offsets},"strides":[1]"#),
        HEADER,
        "t: unknown field `strides`",
    );
    lie(
        &format!(r#""dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],{offsets}"#),
        HEADER,
        "at most 8",
    );
    lie(
        &format!(r#""dtype":"F32","shape":[-2],{offsets}"#),
        HEADER,
        "t: ",
    );
    lie(
        &format!(r#""dtype":"F32","shape":[3],{offsets}"#),
        "t",
        "needs 12",
    );
    lie(
        &format!(r#""dtype":"F32","shape":[0],{offsets}"#),
        "t",
        "a dimension of 0",
    );
    lie(
        &format!(r#""dtype":"F32","shape":[4294967296,4294967296],{offsets}"#),
        "t",
        "2^64",
    );
    lie(
        r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#,
        "t",
        "bytes 8 to 0",
    );
    lie(
        r#""dtype":"F32","shape":[2],"data_offsets":[4,12]"#,
        "t",
        "ends at 0",
    );
    lie(
        r#""dtype":"F32","shape":[1073741824],"data_offsets":[0,4294967296]"#,
        "",
        "4294967295",
    );
    lie(
        r#""dtype":"X","shape":[2],"data_offsets":[0,18446744073709551615]"#,
        HEADER,
        "as long",
    );
}

#[test]
fn neighbours() {
    let entry = |name: &str, begin: u64, end: u64| {
        let shape = (end - begin) / 4;
        format!(r#""{name}":{{"dtype":"F32","shape":[{shape}],"data_offsets":[{begin},{end}]}}"#)
    };
    let two = |a: String, b: String| header(&format!("{{{a},{b}}}"));
    refused(
        &two(entry("a", 0, 8), entry("b", 4, 12)),
        None,
        "b",
        "ends at 8",
    );
    refused(
        &two(entry("a", 0, 8), entry("b", 12, 16)),
        None,
        "b",
        "without gaps",
    );
    refused(
        &two(entry("a", 0, 8), entry("a", 8, 16)),
        None,
        "a",
        "two tensors",
    );
}

#[test]
fn damage_is_an_error_or_harmless() {
    let file = sound().build();
    let header = file.len() - 55;
    for seed in 0..20_000 {
        let damaged = mutate(&file, header, &mut Random(seed));
        let size = damaged.len() as u64;
        let Ok(Some((index, _))) = index(&damaged, Some(size), 1 + seed as usize % 90) else {
            continue;
        };
        for tensor in index.tensors {
            let end = tensor.offset + tensor.spec.bytes() as u64;
            assert!(end <= size, "seed {seed}: {tensor:?}");
        }
    }
}

#[test]
fn an_index_of_shards_is_held_to_its_word() {
    let refused = |json: &str, what: &str| {
        let error = Shards::from_json(json.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    refused("{}", "weight_map");
    refused(r#"{"weight_map":{}}"#, "no tensor");
    for name in [
        "../a", "a/b", "http:x", "a?b", "", "..\\\\a", "a#b", "%2e%2e",
    ] {
        refused(
            &format!(r#"{{"weight_map":{{"a":"{name}"}}}}"#),
            "not the name of a file",
        );
    }
    let json = r#"{"weight_map":{"a":"2.safetensors","b":"1.safetensors","c":"1.safetensors"}}"#;
    let shards = Shards::from_json(json.as_bytes()).unwrap();
    assert_eq!(shards.files, ["1.safetensors", "2.safetensors"]);
    let part = |names: &[&str]| {
        let file = names.iter().fold(Safetensors::default(), |file, name| {
            file.tensor(name, "F32", &[1], vec![0; 4])
        });
        index(&file.build(), None, 100).unwrap().unwrap().0
    };
    shards.check(&[part(&["b", "c"]), part(&["a"])]).unwrap();
    let error = shards.check(&[part(&["b"]), part(&["a"])]).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidWeights { name: "c".into() }
    );
    let error = Index::join(vec![part(&["a"]), part(&["a"])]).unwrap_err();
    assert!(error.to_string().contains("two files"), "{error}");
}
