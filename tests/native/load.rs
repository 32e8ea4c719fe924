//! A file, in pieces, to answers: the whole road on the reference executor.

use decant::{
    error::ErrorKind,
    exec::Reference,
    generation::{Prompt, Value},
    load::{LoadOptions, Loader},
};
use pollster::block_on;

use crate::support::{generate, golden};

#[test]
fn answers_equal_hugging_face() {
    let engine = generate::engine("llama", Box::new(Reference::new()));
    assert_eq!(generate::check("llama", &engine), 82);
}

#[test]
fn the_comparison_notices_another_model() {
    let engine = generate::engine("llama-draft", Box::new(Reference::new()));
    let failed = generate::run("llama", &engine).failed;
    assert!(failed.len() > 10);
}

#[test]
fn a_file_cut_short_names_its_tensor() {
    let file = golden::gguf("llama");
    let mut loader = Loader::new(Box::new(Reference::new()), LoadOptions::default(), None);
    block_on(loader.push(&file[..file.len() - 1])).unwrap();
    let error = block_on(loader.finish()).unwrap_err();
    let ErrorKind::InvalidWeights { name } = error.kind() else {
        panic!("{error}")
    };
    assert!(error.to_string().contains(name.as_str()), "{error}");
    assert!(name.ends_with(".weight"), "{error}");
}

#[test]
fn a_context_beyond_the_model_is_refused_before_any_tensor() {
    let file = golden::gguf("llama");
    let options = LoadOptions {
        context_length: Some(100_000),
        ..LoadOptions::default()
    };
    let mut loader = Loader::new(Box::new(Reference::new()), options, None);
    let error = block_on(loader.push(&file)).unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::InvalidOption {
            name: "contextLength".into()
        }
    );
}

#[test]
fn text_goes_in_and_comes_out() {
    let engine = generate::engine("llama", Box::new(Reference::new()));
    let config = Value::from(&serde_json::json!({ "max_new_tokens": 8 }));
    let prompt = Prompt::Text("hello there".into());
    let mut generation = engine.generate_prompts(&[prompt], &config).unwrap();
    let mut text = String::new();
    while let Some(event) = block_on(generation.next()).unwrap() {
        text += &event.text;
    }
    let output = generation.finish().unwrap();
    assert_eq!(output.texts, [text]);
    // The tokenizer puts its first token before a raw prompt.
    assert_eq!(
        output.usage.prompt_tokens,
        engine
            .tokenizer()
            .encode("hello there", false)
            .unwrap()
            .len()
            + 1
    );
}
