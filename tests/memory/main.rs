//! Reading model files takes memory for the bytes that arrive, not for what a file claims.
//!
//! One test only: it counts what the whole process allocates, so nothing may run beside it.

use decant::{
    model::{Graph, GraphOptions},
    tensor::DType,
    weights::{TensorStream, Value, gguf::Header, safetensors},
};
use peak_alloc::PeakAlloc;

#[path = "../support/mod.rs"]
mod support;

use support::{
    gguf::{Gguf, Meta},
    golden,
    mutate::mutate,
    random::Random,
    safetensors::Safetensors,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Bytes that `work` allocates beyond those in use when it begins.
fn peak(work: impl FnOnce()) -> usize {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    work();
    ALLOCATOR.peak_usage() - before
}

/// Reads a header in pieces of `piece` bytes and forgets it.
fn header(bytes: &[u8], piece: usize) {
    let mut header = Header::new(None);
    for piece in bytes.chunks(piece) {
        if !matches!(header.push(piece), Ok(None)) {
            return;
        }
    }
}

#[test]
fn memory_follows_the_bytes() {
    the_count_counts();
    lies_take_a_few_kilobytes();
    damaged_headers_take_a_few_kilobytes();
    small_items_take_eight_times_their_bytes();
    long_texts_take_their_bytes();
    tensor_data_takes_nothing();
    safetensors_headers_take_ten_times_their_bytes();
    lying_safetensors_take_a_few_kilobytes();
    long_contexts_take_nothing_until_there_is_room();
}

fn the_count_counts() {
    assert!(peak(|| drop(vec![1u8; 1 << 20])) >= 1 << 20);
    assert!(peak(|| ()) < 1 << 10);
}

fn lies_take_a_few_kilobytes() {
    // Each claims what a header may hold at most, so only the missing bytes give it away.
    for (kind, item) in [(0, 1), (1, 1), (4, 4), (8, 8), (12, 8)] {
        let list = Meta::Array(kind, (60 << 20) / item, Vec::new());
        let bytes = Gguf::new().meta("key", list).build();
        assert!(peak(|| header(&bytes, 7)) < 1 << 14, "list of type {kind}");
    }
    let (_, text) = Meta::from("").encode();
    let mut file = Gguf::new().meta("key", "");
    file.metadata[0].2 = [&(60u64 << 20).to_le_bytes(), &text[8..]].concat();
    assert!(peak(|| header(&file.build(), 7)) < 1 << 14);
    let file = Gguf {
        metadata_count: Some(1 << 20),
        tensor_count: Some(1 << 20),
        ..Gguf::new()
    };
    assert!(peak(|| header(&file.build(), 7)) < 1 << 14);
}

fn damaged_headers_take_a_few_kilobytes() {
    let values = Random(1).values(64, 1.0);
    let file = Gguf::new()
        .meta("general.architecture", "llama")
        .meta("list", &["a", "b"][..])
        .meta("numbers", &[1i32, 2, 3][..])
        .tensor("a", &[32, 2], DType::Q8_0, &values)
        .tensor("b", &[64], DType::F32, &values);
    let bytes = file.build();
    for seed in 0..20_000 {
        let damaged = mutate(&bytes, file.header().len(), &mut Random(seed));
        let most = peak(|| header(&damaged, 1 + seed as usize % 90));
        assert!(most < 1 << 15, "seed {seed}: {most} bytes");
    }
}

/// What the module's documentation promises, with the headers that cost most.
fn small_items_take_eight_times_their_bytes() {
    let entries = (0..60_000).fold(Gguf::new(), |file, i| file.meta(&format!("{i:x}"), true));
    let costly = [
        (
            "short integers",
            Gguf::new().meta("k", &vec![1i16; 1 << 19][..]),
        ),
        ("empty texts", Gguf::new().meta("k", &vec![""; 1 << 17][..])),
        (
            "texts of one byte",
            Gguf::new().meta("k", &vec!["a"; 1 << 17][..]),
        ),
        ("metadata", entries),
    ];
    for (what, file) in costly {
        let bytes = file.build();
        let most = peak(|| header(&bytes, 1 << 16));
        println!("{what}: {:.1} times", most as f64 / bytes.len() as f64);
        assert!(most < 8 * bytes.len(), "{what}: {most} bytes");
    }
}

fn long_texts_take_their_bytes() {
    let bytes = Gguf::new()
        .meta("k", "text".repeat(1 << 20).as_str())
        .build();
    for piece in [1 << 12, 1 << 16, bytes.len()] {
        let most = peak(|| header(&bytes, piece));
        assert!(most < 4 * bytes.len(), "{most} bytes");
    }
}

fn tensor_data_takes_nothing() {
    let data = vec![0; 34 * (1 << 20)];
    let file = Gguf::new().blocks("w", &[32, 1 << 20], DType::Q8_0, data);
    let bytes = file.build();
    for piece in [1 << 16, 1_000_003, bytes.len()] {
        let mut blocks = 0;
        let most = peak(|| {
            let (mut header, mut stream) = (Header::new(None), None);
            for mut piece in bytes.chunks(piece) {
                if stream.is_none() {
                    let (index, used) = header.push(piece).unwrap().unwrap();
                    stream = Some(TensorStream::new(&index));
                    piece = &piece[used..];
                }
                let stream = stream.as_mut().unwrap();
                stream
                    .push(piece, &mut |_, _, piece| {
                        blocks += piece.len() / 34;
                        Ok(())
                    })
                    .unwrap();
            }
        });
        assert_eq!(blocks, 1 << 20);
        assert!(most < 1 << 18, "{most} bytes");
    }
}

fn safetensors_header(bytes: &[u8], piece: usize) {
    let mut header = safetensors::Header::new(None);
    for piece in bytes.chunks(piece) {
        if !matches!(header.push(piece), Ok(None)) {
            return;
        }
    }
}

/// What the module's documentation promises, with the entries that cost most.
fn safetensors_headers_take_ten_times_their_bytes() {
    let file = (0..20_000).fold(Safetensors::default(), |file, i| {
        file.tensor(&format!("{i:x}"), "F16", &[], vec![0; 2])
    });
    let bytes = file.build();
    for piece in [1 << 12, bytes.len()] {
        let most = peak(|| safetensors_header(&bytes, piece));
        println!("safetensors: {:.1} times", most as f64 / bytes.len() as f64);
        assert!(most < 10 * bytes.len(), "{most} bytes");
    }
}

fn lying_safetensors_take_a_few_kilobytes() {
    let file = Safetensors {
        length: Some(safetensors::MAX_HEADER),
        ..Safetensors::default()
    };
    assert!(peak(|| safetensors_header(&file.build(), 7)) < 1 << 14);
    let list = format!(r#"{{"t":{{"dtype":"F32","shape":[{}"#, "1,".repeat(1 << 20));
    let file = Safetensors {
        header: Some(list),
        ..Safetensors::default()
    };
    let bytes = file.build();
    let most = peak(|| safetensors_header(&bytes, bytes.len()));
    assert!(most < bytes.len() + (1 << 14), "{most} bytes");
}

/// Tables of angles come after the question whether there is room for them, and then in pieces.
fn long_contexts_take_nothing_until_there_is_room() {
    let positions = 1 << 22;
    let mut checkpoint = golden::checkpoint("llama");
    let key = "llama.context_length".into();
    checkpoint.metadata.insert(key, Value::Unsigned(positions));
    let index = checkpoint.index();
    let options = GraphOptions {
        context_length: Some(positions as usize),
        quantise: None,
    };
    let mut graph = None;
    let most = peak(|| {
        let described = Graph::from_index(index, options).unwrap();
        described.tape(1, 1).unwrap();
        graph = Some(described);
    });
    assert!(most < 1 << 20, "{most} bytes");
    let rope = &graph.as_ref().unwrap().config.ropes[0];
    let mut values = 0;
    let most = peak(|| {
        let mut count = |first: usize, angles: &[f32]| {
            assert_eq!(first, values);
            values += angles.len();
            Ok(())
        };
        rope.table(positions as usize, &[], &mut count).unwrap();
    });
    assert_eq!(values, positions as usize * rope.dims);
    assert!(most < 1 << 20, "{most} bytes");
}
