//! Profiles without a GPU: the CPU times operations, the reference has no clock and says so.

use decant::{
    error::ErrorKind,
    exec::{Activations, Cpu, Reference},
    generation::{Arguments, Prompt, Value},
};
use pollster::block_on;
use serde_json::json;

use crate::support::generate;

fn arguments(profile: bool) -> Arguments {
    Arguments {
        profile,
        ..Arguments::default()
    }
}

#[test]
fn the_cpu_times_operations() {
    let engine = generate::engine("llama", Box::new(Cpu::new(Activations::F32)));
    let config = Value::from(&json!({ "max_new_tokens": 6, "eos_token_id": null }));
    let answer = |profile: bool| {
        let prompt = [Prompt::Ids(vec![5, 6, 7])];
        let generation = engine.generate_with(&prompt, &config, &arguments(profile));
        block_on(generation.unwrap().output()).unwrap()
    };
    let (plain, found) = (answer(false), answer(true));
    assert_eq!(
        (plain.sequences, plain.kernels),
        (found.sequences.clone(), None)
    );
    let kernels = found.kernels.unwrap();
    let count = |name: &str| {
        let kernel = kernels.iter().find(|kernel| kernel.name == name);
        kernel.map_or(0, |kernel| kernel.dispatches)
    };
    let forwards = found.timings.forwards;
    let layers = count("attention") / forwards;
    assert_eq!(count("embed"), forwards, "{kernels:?}");
    assert_eq!(count("gated_matmul"), forwards * layers, "{kernels:?}");
    assert_eq!(count("norm"), forwards * (2 * layers + 1), "{kernels:?}");
    assert!(layers > 0 && kernels.iter().all(|kernel| kernel.ms >= 0.0));
    let ms: f64 = kernels.iter().map(|kernel| kernel.ms).sum();
    assert!(ms > 0.0 && ms <= found.timings.prefill_ms + found.timings.decode_ms);
}

#[test]
fn the_reference_has_no_clock() {
    let engine = generate::engine("llama", Box::new(Reference::new()));
    let prompt = [Prompt::Ids(vec![5])];
    let refused = engine.generate_with(&prompt, &Value::Null, &arguments(true));
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().starts_with("profile: "), "{error}");
}
