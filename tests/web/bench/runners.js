// What `npm run bench` measures, each behind the same two calls: load, and run on a prompt of ids.
//
// `run(ids, decode)` answers rates in tokens per second as the page sees them: prompt tokens over the time to
// the first token, and further tokens over the time from the first to the last.

/** All runners; one that lacks something says in `missing` what, and the line that installs it. */
export function runners(setup) {
  return [
    { name: "Decant, WebGPU", load: () => decant(setup, { device: "webgpu" }) },
    ...[
      ["f32", 1],
      ["q8_0", 1],
      ["q16_0", 1],
      ["q16_0", 2],
    ].map(([activations, threads]) => ({
      name: `Decant, CPU, ${activations}${threads > 1 ? `, ${threads} threads` : ""}`,
      load: () => decant(setup, { device: "cpu", activations, threads }),
    })),
    ...["webgpu", "wasm"].map((device) => ({
      name: `transformers.js, ${device}, q4`,
      missing: setup.transformers.missing,
      load: () => transformers(setup, device),
    })),
    ...["WebGPU where it can", "CPU, one thread"].map((device, i) => ({
      name: `wllama, ${device}`,
      missing: setup.wllama.missing,
      load: () => wllama(setup, i === 0),
    })),
  ];
}

async function decant(setup, options) {
  const { load } = await import("/package/index.js");
  const model = await load(setup.model, { ...options, cache: "none" });
  const answer = async (ids, decode, profile) => {
    const started = performance.now();
    const at = [];
    const config = { max_new_tokens: decode + 1, eos_token_id: [] };
    const generation = model.generate(ids, config, profile ? { profile } : {});
    for await (const _ of generation) at.push(performance.now());
    return { ...rates(ids.length, started, at), timings: (await generation.result).timings };
  };
  let last;
  return {
    run: (ids, decode) => answer((last = ids), decode, false),
    details: async () => {
      // Reversed, so that nothing of it is in the cache. Who has no timestamps says so.
      const profile = await answer([...last].reverse(), 8, true).catch((error) => String(error));
      return { info: model.info, kernels: profile.timings?.kernels ?? profile };
    },
    close: () => model.unload(),
  };
}

async function transformers(setup, device) {
  const { env, AutoModelForCausalLM, Tensor } = await import(setup.transformers.module);
  Object.assign(env, { allowRemoteModels: false, allowLocalModels: true, useBrowserCache: false });
  env.localModelPath = setup.transformers.models;
  env.backends.onnx.wasm.wasmPaths = setup.transformers.wasm;
  env.backends.onnx.wasm.numThreads = 1;
  const model = await AutoModelForCausalLM.from_pretrained(setup.transformers.name, {
    dtype: "q4",
    device,
  });
  return {
    run: async (ids, decode) => {
      const at = [];
      let prompt = true;
      const streamer = {
        put: () => {
          if (!prompt) at.push(performance.now());
          prompt = false;
        },
        end: () => {},
      };
      const shape = [1, ids.length];
      const started = performance.now();
      await model.generate({
        input_ids: new Tensor("int64", BigInt64Array.from(ids, BigInt), shape),
        attention_mask: new Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape),
        max_new_tokens: decode + 1,
        min_new_tokens: decode + 1,
        do_sample: false,
        streamer,
      });
      return rates(ids.length, started, at);
    },
    close: () => model.dispose(),
  };
}

async function wllama(setup, gpu) {
  const { Wllama } = await import(setup.wllama.module);
  const runtime = new Wllama({ default: setup.wllama.wasm }, { suppressNativeLog: true });
  const file = await (await fetch(setup.model)).blob();
  await runtime.loadModel([file], {
    n_ctx: 1024,
    n_parallel: 1,
    n_threads: 1,
    n_gpu_layers: gpu ? 999 : 0,
  });
  if (gpu && !runtime.isSupportWebGPU()) throw new Error("it does not support this adapter");
  return {
    run: async (ids, decode) => {
      const at = [];
      const prompt = setup.text.repeat(8).slice(0, ids.length * 4);
      let prompt_tokens = ids.length;
      const started = performance.now();
      await runtime.createCompletion({
        prompt: ids[0] + prompt,
        max_tokens: decode + 1,
        temperature: 0,
        ignore_eos: true,
        cache_prompt: false,
        stream: true,
        onData: ({ choices, timings }) => {
          prompt_tokens = timings?.prompt_n ?? prompt_tokens;
          const text = choices?.[0]?.text;
          if (text !== undefined && choices[0].finish_reason == null) at.push(performance.now());
        },
      });
      return { ...rates(prompt_tokens, started, at), prompt_tokens };
    },
    close: () => runtime.exit(),
  };
}

function rates(prompt, started, at) {
  return {
    prefill: prompt / ((at[0] - started) / 1000),
    decode: (at.length - 1) / ((at.at(-1) - at[0]) / 1000),
    first_ms: at[0] - started,
  };
}
