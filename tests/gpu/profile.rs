//! Profiles: every dispatch is timed and named, no token depends on it, and who cannot time says so.

use decant::{
    error::ErrorKind,
    exec::gpu::GpuOptions,
    generation::{Arguments, Output, Prompt, RunAhead, Value},
};
use pollster::block_on;
use serde_json::{Value as Json, json};

use crate::{gpu, support::generate};

fn profiled() -> Arguments {
    Arguments {
        profile: true,
        ..Arguments::default()
    }
}

#[test]
fn every_dispatch_is_timed_on_both_homes() {
    let Some(gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let engine = generate::engine("llama", Box::new(gpu));
    let prompt = [Prompt::Ids((0..20).map(|i| 3 + i * 7 % 50).collect())];
    let answer = |config: &Json, arguments: &Arguments| -> Output {
        let config = Value::from(config);
        let mut generation = engine.generate_with(&prompt, &config, arguments).unwrap();
        block_on(generation.output()).unwrap()
    };
    for depth in [RunAhead::Host, RunAhead::Steps(3)] {
        engine.set_run_ahead(depth);
        for config in [
            json!({ "max_new_tokens": 9, "eos_token_id": null }),
            // Steps of the prompt from which no token follows.
            json!({ "max_new_tokens": 2, "eos_token_id": null, "prefill_chunk_size": 3,
                "use_cache": false }),
            json!({ "max_new_tokens": 9, "eos_token_id": null, "do_sample": true, "seed": 3,
                "top_k": 5, "use_cache": false }),
        ] {
            let plain = answer(&config, &Arguments::default());
            assert_eq!(plain.kernels, None);
            let found = answer(&config, &profiled());
            assert_eq!(found.sequences, plain.sequences);
            let kernels = found.kernels.unwrap();
            let what = format!("{config}, {depth:?}: {kernels:?}");
            let timed: u64 = kernels.iter().map(|kernel| kernel.dispatches).sum();
            assert_eq!(found.timings.steps_wasted, 0, "{what}");
            assert_eq!(timed, found.timings.dispatches, "{what}");
            assert!(kernels.iter().all(|kernel| kernel.ms >= 0.0), "{what}");
            assert!(kernels.is_sorted_by(|a, b| a.ms >= b.ms), "{what}");
            // The device cannot have been busy for longer than the call took.
            let ms: f64 = kernels.iter().map(|kernel| kernel.ms).sum();
            let took = found.timings.prefill_ms + found.timings.decode_ms;
            assert!(ms > 0.0 && ms <= took, "{ms} of {took} ms, {what}");
            let names: Vec<_> = kernels.iter().map(|kernel| kernel.name).collect();
            assert!(names.contains(&"rotary_store.F32"), "{what}");
            // A later call without a profile adds nothing to anything.
            assert_eq!(answer(&config, &Arguments::default()).kernels, None);
        }
    }
}

#[test]
fn an_adapter_without_timestamps_refuses() {
    let options = GpuOptions {
        plain: true,
        ..GpuOptions::default()
    };
    let Some(gpu) = gpu(options) else { return };
    let engine = generate::engine("llama", Box::new(gpu));
    let prompt = [Prompt::Ids(vec![5, 6])];
    let refused = engine.generate_with(&prompt, &Value::Null, &profiled());
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().starts_with("profile: "), "{error}");
    assert!(error.to_string().contains("no timestamps"), "{error}");
    let answer = engine.generate_with(&prompt, &Value::Null, &Arguments::default());
    assert!(block_on(answer.unwrap().output()).is_ok());
}
