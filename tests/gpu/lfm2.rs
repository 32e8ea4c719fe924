//! Layers that convolve on the GPU: whatever becomes of a sequence, what they left belongs to its position.

use decant::{
    exec::gpu::GpuOptions,
    generation::{Prompt, RunAhead},
    load::LoadOptions,
    ops::CacheType,
};
use serde_json::json;

use crate::{
    ahead::{answer, check},
    gpu,
    support::{branches, checkpoint, generate},
};

#[test]
fn rewinds_and_forks_go_on_from_their_own_positions() {
    let model = checkpoint::files("lfm2", "config.json").model().unwrap();
    let Some(mut gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let faults = branches::compare("lfm2", &model, &mut gpu);
    assert_eq!(faults, [""; 0]);
}

#[test]
fn layers_that_convolve_run_ahead_and_back() {
    let Some(gpu) = gpu(GpuOptions::default()) else {
        return;
    };
    let options = LoadOptions {
        kv_cache: CacheType::F32,
        ..LoadOptions::default()
    };
    let files = checkpoint::files("lfm2", "config.json");
    let engine = files.engine(Box::new(gpu), options, 1000).unwrap();
    assert_eq!(generate::check("lfm2", &engine), 5);
    let many: Vec<u32> = (0..60).collect();
    let configs = [
        json!({ "max_new_tokens": 20 }),
        json!({ "max_new_tokens": 20, "do_sample": true, "seed": 5, "num_return_sequences": 3,
            "temperature": 2.0, "eos_token_id": many }),
        json!({ "max_new_tokens": 10, "num_beams": 3 }),
    ];
    for lengths in [&[6][..], &[1, 9]] {
        for config in &configs {
            check(&engine, lengths, config);
        }
    }
    // After an end that was found late, the next turn goes on from what was shown.
    for seed in 0..6 {
        let config = json!({ "max_new_tokens": 20, "do_sample": true, "seed": seed, "temperature": 2.0,
            "eos_token_id": many });
        let turns = |depth| {
            let mut ids: Vec<u32> = (0..9).map(|i| 70 + i * 31).collect();
            for turn in 0..3 {
                let prompt = [Prompt::Ids(ids.clone())];
                let output = answer(&engine, &prompt, &config, depth);
                ids.extend(&output.sequences[0]);
                ids.extend([90 + turn, 7]);
            }
            ids
        };
        assert_eq!(turns(RunAhead::Steps(8)), turns(RunAhead::Host), "{seed}");
    }
}
