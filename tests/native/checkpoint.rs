//! Hugging Face checkpoints: the model that their files describe, in either spelling.

use decant::{
    error::ErrorKind,
    exec::{Executor, Reference, TapeId},
    generation::{Prompt, Value},
    load::{LoadOptions, Loader},
    model::{Graph, GraphOptions},
    ops::CacheType,
    tensor::DType,
};
use pollster::block_on;

use crate::support::{
    checkpoint::{self, Files, Model, distance},
    convert, generate, golden,
};

const SPELLINGS: [&str; 2] = ["config.json", "config.legacy.json"];

fn options() -> LoadOptions {
    LoadOptions {
        kv_cache: CacheType::F32,
        ..LoadOptions::default()
    }
}

#[test]
fn the_comparison_notices_one_wrong_value() {
    let prompt = &golden::forward("llama")[0];
    let mut wrong = prompt.hidden[1].clone();
    wrong[7] += 0.01;
    assert!(distance(&wrong, &prompt.hidden[1]) > 1.0);
}

#[test]
fn answers_equal_hugging_face() {
    for (piece, spelling) in [(7, SPELLINGS[0]), (100_000, SPELLINGS[1])] {
        let files = checkpoint::files("llama", spelling);
        let engine = files.engine(Box::new(Reference::new()), options(), piece);
        assert_eq!(generate::check("llama", &engine.unwrap()), 82);
    }
}

/// The checkpoint with its tensors dealt out to three files.
fn sharded(name: &str) -> Files {
    checkpoint::files(name, "config.json").sharded(3)
}

#[test]
fn shards_give_the_same_answers() {
    let files = sharded("llama-tied");
    assert_eq!(files.weights.len(), 3);
    let engine = files.engine(Box::new(Reference::new()), options(), 1000);
    assert_eq!(generate::check("llama-tied", &engine.unwrap()), 5);
}

#[test]
fn the_files_of_a_checkpoint_are_used() {
    let mut files = checkpoint::files("llama", SPELLINGS[0]);
    files.generation_config = br#"{ "max_new_tokens": 3, "eos_token_id": [1, 2] }"#.to_vec();
    let engine = files
        .engine(Box::new(Reference::new()), options(), 9999)
        .unwrap();
    let prompt = Prompt::Ids(vec![5, 6, 7]);
    let generation = engine.generate_prompts(&[prompt], &Value::Null).unwrap();
    let value = |name: &str| {
        let settings = &generation.plan().settings;
        settings
            .iter()
            .find(|s| s.name == name)
            .unwrap()
            .value
            .to_string()
    };
    assert_eq!(value("max_new_tokens"), "3");
    assert_eq!(value("eos_token_id"), "[1, 2]");

    // Without that file, config.json says how a text ends.
    let mut small = files.small();
    small.generation_config = None;
    small.chat_template = Some(b"{{ messages[0].content }}!");
    let config: serde_json::Value = serde_json::from_slice(&files.config).unwrap();
    let loader = Loader::checkpoint(Box::new(Reference::new()), options(), &small);
    let mut loader = loader.unwrap();
    assert_eq!(loader.files(), ["model.safetensors"]);
    loader.begin(0, None).unwrap();
    assert!(block_on(loader.push(&files.weights[0])).unwrap());
    let engine = block_on(loader.finish()).unwrap();
    assert_eq!(
        engine.model().eos_token_ids,
        [config["eos_token_id"].as_u64().unwrap() as u32]
    );
    assert_eq!(
        engine.tokenizer().chat_template(),
        Some("{{ messages[0].content }}!")
    );
}

/// The largest difference of two answers to the same question, in logits.
fn most(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn a_model_is_quantised_while_it_is_loaded() {
    // Its width is a multiple of 32, as quantised blocks need.
    let files = checkpoint::wide();
    let logits = |quantise: Option<DType>| {
        let options = LoadOptions {
            quantise,
            ..options()
        };
        let engine = files
            .engine(Box::new(Reference::new()), options, 777)
            .unwrap();
        block_on(engine.forward_all(&[5, 6, 7, 8])).unwrap()
    };
    let exact = logits(None);
    let (q8, q4) = (logits(Some(DType::Q8_0)), logits(Some(DType::Q4_0)));
    for (dtype, found) in [(DType::Q8_0, &q8), (DType::Q4_0, &q4)] {
        // The same matrices, quantised by the tests' own arithmetic and read from a file as they are.
        let stored = convert::gguf(&files, Some(dtype));
        let graph = Graph::from_index(stored.index(), GraphOptions::default()).unwrap();
        let tensors = stored.bytes();
        let (model, mut executor) = (Model { graph, tensors }, Reference::new());
        model.prepare(&mut executor, vec![model.graph.tape(4, 4).unwrap()]);
        let step = checkpoint::step(&[5, 6, 7, 8], 0, 4);
        let expected = block_on(executor.forward(TapeId(0), &step)).unwrap();
        let off = distance(found, &expected);
        assert!(off < 0.1, "{}: {off}", dtype.name());
    }
    let (small, large) = (most(&exact, &q8), most(&exact, &q4));
    assert!(
        small > 1e-4 && small < 0.3 && large > 2.0 * small,
        "{small} {large}"
    );

    let options = LoadOptions {
        quantise: Some(DType::Q4_0),
        ..options()
    };
    let loader = Loader::checkpoint(Box::new(Reference::new()), options, &files.small());
    let mut loader = loader.unwrap();
    loader.begin(0, None).unwrap();
    block_on(loader.push(&files.weights[0])).unwrap();
    let description = loader.description().unwrap();
    let told = description.quantised.unwrap();
    // Seven matrices a layer and the embedding; three norms stay.
    assert_eq!(
        told,
        "8 matrices were quantised to Q4_0 while loading; 3 weights stay as they are stored"
    );
    assert_eq!(
        description.parameters * 18 / 32 + 3 * 64 * 4 - 3 * 64 * 18 / 32,
        description.weight_bytes
    );
}

#[test]
fn a_split_gguf_file_is_one_model() {
    let whole = golden::gguf("llama");
    let parts = golden::split_gguf("llama", 3);
    let load = |files: &[Vec<u8>]| {
        let mut loader = Loader::gguf(Box::new(Reference::new()), options(), files.len());
        block_on(async {
            for pass in 0..2 {
                for (at, file) in files.iter().enumerate() {
                    loader.begin(at, Some(file.len() as u64))?;
                    for piece in file.chunks(5000) {
                        if !loader.push(piece).await? {
                            assert_eq!(pass, 0, "headers are read once");
                            break;
                        }
                    }
                }
            }
            loader.finish().await
        })
    };
    let engine = load(&parts).unwrap();
    assert_eq!(generate::check("llama", &engine), 82);

    let error = |files: &[Vec<u8>]| load(files).err().unwrap().to_string();
    assert!(error(&[parts[1].clone(), parts[0].clone(), parts[2].clone()]).contains("split.no"));
    assert!(error(&parts[..2]).contains("split.count"));
    assert!(error(&[whole.clone(), whole]).contains("split.count"));
    let mut alone = Loader::new(Box::new(Reference::new()), options(), None);
    let error = block_on(alone.push(&parts[0])).unwrap_err().to_string();
    assert!(error.contains("give them all"), "{error}");
}

/// Where nobody has said how long the files are, only what comes next tells that one has ended.
#[test]
fn a_file_that_ends_inside_its_header_is_damaged() {
    let load = |mut loader: Loader, files: &[Vec<u8>]| {
        block_on(async {
            for _ in 0..2 {
                for (at, file) in files.iter().enumerate() {
                    loader.begin(at, None)?;
                    loader.push(file).await?;
                }
            }
            loader.finish().await.map(drop)
        })
    };
    let gguf = golden::split_gguf("llama", 3);
    let shards = sharded("llama-tied");
    for at in 0..3 {
        for length in [0, 5, 100] {
            let short = |files: &[Vec<u8>]| {
                let mut files = files.to_vec();
                files[at].truncate(length);
                files
            };
            let reference = || Box::new(Reference::new());
            let loader = Loader::checkpoint(reference(), options(), &shards.small()).unwrap();
            for (loader, files) in [
                (Loader::gguf(reference(), options(), 3), short(&gguf)),
                (loader, short(&shards.weights)),
            ] {
                let error = load(loader, &files).unwrap_err();
                let damaged = matches!(error.kind(), ErrorKind::InvalidWeights { .. });
                assert!(damaged, "file {at} of {length} bytes: {error}");
                assert!(error.to_string().contains("it was cut short"), "{error}");
            }
        }
    }
}

/// What the command line prints for the golden checkpoint, or the error.
fn command_line(arguments: &[&str]) -> Result<String, String> {
    let mut decant = std::process::Command::new(env!("CARGO_BIN_EXE_decant"));
    let folder = golden::folder().join("models/llama");
    let output = decant
        .arg(arguments[0])
        .arg(folder)
        .args(&arguments[1..])
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn the_command_line_prints_several_answers_one_after_the_other() {
    let run = |answers: usize, explain: &[&str]| {
        let config = format!(
            r#"{{ "max_new_tokens": 4, "num_beams": 2, "num_return_sequences": {answers}, "do_sample": false }}"#
        );
        let arguments = [
            "generate",
            "hello there",
            "--device",
            "cpu",
            "--config",
            &config,
        ];
        command_line(&[&arguments, explain].concat()).unwrap()
    };
    let one = run(1, &[]);
    let two = run(2, &[]);
    let best = two
        .strip_prefix("--- answer 1, stopped by max_new_tokens\n")
        .unwrap_or_else(|| panic!("{two}"));
    let rest = best.strip_prefix(&one).unwrap_or_else(|| panic!("{two}"));
    assert!(
        rest.starts_with("--- answer 2, stopped by max_new_tokens\n"),
        "{two}"
    );
    assert!(run(1, &["--explain"]).contains("\nhome: host (the executor chooses no tokens)\n"));
}

#[test]
fn the_command_line_ignores_no_option() {
    let refused = |arguments: &[&str], why: &str| {
        let error = command_line(arguments).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    for device in ["webgpu", "reference"] {
        for activations in ["q8_0", "q16_0"] {
            let arguments = [
                "generate",
                "a",
                "--device",
                device,
                "--activations",
                activations,
            ];
            refused(&arguments, "--activations is for --device cpu");
        }
    }
    refused(&["generate", "a", "--system", "b"], "add --chat");
}

#[test]
fn the_command_line_takes_a_folder() {
    let run = |arguments: &[&str]| command_line(arguments).unwrap();
    let config = r#"{ "max_new_tokens": 5, "do_sample": false }"#;
    let arguments = [
        "generate",
        "hello there",
        "--device",
        "cpu",
        "--kv-cache",
        "f32",
        "--config",
        config,
    ];
    let files = checkpoint::files("llama", SPELLINGS[0]);
    let engine = files
        .engine(Box::new(Reference::new()), options(), 9999)
        .unwrap();
    let config = Value::from(&serde_json::from_str::<serde_json::Value>(config).unwrap());
    let prompt = Prompt::Text("hello there".into());
    let mut generation = engine.generate_prompts(&[prompt], &config).unwrap();
    while block_on(generation.next()).unwrap().is_some() {}
    let expected = generation.finish().unwrap().texts.remove(0);
    assert_eq!(run(&arguments), format!("{expected}\n"));
    let inspected = run(&["inspect"]);
    assert!(
        inspected.contains("48 × 107  model.layers.0.mlp.down_proj.weight"),
        "{inspected}"
    );
    assert!(
        inspected.contains("model_type = the text \"llama\""),
        "{inspected}"
    );
}
