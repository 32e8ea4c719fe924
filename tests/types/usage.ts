/** What must compile, and (after each `@ts-expect-error`) what must not. Checked against the built declarations. */

import {
  applyProcessors,
  DecantError,
  load,
  type ErrorCode,
  type Generation,
  type GenerationConfig,
  type GenerationEvent,
  type GenerationResult,
  type Model,
  type StopReason,
} from "decant";

async function good(model: Model, signal: AbortSignal): Promise<void> {
  await load("owner/repo/model.gguf");
  await load(new URL("https://host/model.gguf"), {
    device: "webgpu",
    kvCache: "f32",
    worker: false,
    threads: 2,
  });
  void (model.info.threads satisfies number | null);
  await load(new Blob(), {
    cache: "none",
    contextLength: 2048,
    hub: "https://hub.example",
    fetch: globalThis.fetch,
    signal,
    onProgress: ({ stage, loaded, total }) => void [stage satisfies string, loaded + (total ?? 0)],
  });

  const config: GenerationConfig = {
    do_sample: true,
    temperature: 0.7,
    top_p: 0.9,
    max_new_tokens: 256,
  };
  const generation: Generation = model.generate("Once upon a time", config, { signal });
  for await (const { text, token_id, sequence } of generation) {
    void [text satisfies string, token_id satisfies number, sequence satisfies number];
  }
  const result: GenerationResult = await generation.result;
  void (result.stop_reason satisfies StopReason);
  void (result.plan.values["temperature"]?.value satisfies unknown);
  generation.stop();
  model.generate([{ role: "user", content: "Hello" }]);
  model.generate([1, 2, 3], { stop_strings: ["\n"], eos_token_id: [0, 2], seed: 7, top_k: null });
  model.generate(["one", "two"]);
  model.generate("again", model.generation_config);

  void ((await model.tokenizer.encode("text", { add_special_tokens: false })) satisfies number[]);
  void ((await model.tokenizer.decode([1, 2], { skip_special_tokens: true })) satisfies string);
  void ((await model.tokenizer.count("text")) satisfies number);
  await model.tokenizer.apply_chat_template([{ role: "user", content: "Hi", name: "Ann" }], {
    add_generation_prompt: true,
    a_variable_of_the_template: [1, 2],
  });
  const { data, shape } = await model.forward([1, 2]);
  void [data satisfies Float32Array, shape[1] satisfies number];
  void ((await model.explain(config)).warnings[0]?.message satisfies string | undefined);
  model.generate(
    "text",
    { num_beams: 2, early_stopping: "never", bad_words_ids: [[1, 2]], logit_bias: { 5: -100 } },
    {
      logits_processor: [
        (_, scores) => void scores.fill(0),
        async (input_ids, scores) => scores.map((score) => score + input_ids.length),
      ],
      stopping_criteria: [(input_ids, _, sequence) => input_ids.length > 9 && sequence === 0],
      prefix_allowed_tokens_fn: (batch_id) => [batch_id],
    },
  );
  const assistant = await load("./small.gguf", { worker: model });
  const arguments_ = {
    assistant_model: assistant,
    negative_prompt: ["a", [1, 2]],
    attention_mask: [
      [0, 1],
      [1, 1],
    ],
    profile: true,
  };
  const searched = await model.generate(["text"], { num_beams: 2, output_scores: true }, arguments_)
    .result;
  void [
    searched.sequences_scores?.[0] satisfies number | undefined,
    searched.beam_indices?.[0]?.[0] satisfies number | undefined,
    searched.scores?.[0]?.[0] satisfies Float32Array | undefined,
    searched.logprobs?.[0]?.[0]?.top_logprobs[0]?.token_id satisfies number | undefined,
    searched.speculation?.acceptance_rate satisfies number | null | undefined,
    searched.timings.kernels?.[0]?.ms satisfies number | undefined,
  ];
  const applied = await applyProcessors([1, 2, 3], [0], { top_k: 2 }, { prompt_length: 1 });
  void [applied.scores satisfies Float32Array, applied.steps[0]?.kept satisfies number | undefined];
  void ((await model.stats()).stop_reasons.eos satisfies number | undefined);
  await model.unload();

  const error = new DecantError("internal", "message");
  void [
    error instanceof Error,
    error.code satisfies ErrorCode,
    error.field satisfies string | undefined,
  ];
}

async function bad(model: Model, event: GenerationEvent): Promise<void> {
  // @ts-expect-error a misspelt option
  model.generate("text", { temprature: 0.7 });
  // @ts-expect-error an option that is refused
  model.generate("text", { penalty_alpha: 0.6 });
  // @ts-expect-error a word that is none of the choices
  model.generate("text", { early_stopping: "sometimes" });
  // @ts-expect-error a watermark has no such argument
  model.generate("text", { watermarking_config: { ngram_len: 5 } });
  // @ts-expect-error an option of the wrong type
  model.generate("text", { top_k: "50" });
  // @ts-expect-error a signal is no generation option
  model.generate("text", { signal: new AbortController().signal });
  // @ts-expect-error an assistant is a loaded model
  model.generate("text", {}, { assistant_model: "owner/repo" });
  // @ts-expect-error a profile is made or not
  model.generate("text", {}, { profile: "yes" });
  // @ts-expect-error functions come in a list
  model.generate("text", {}, { logits_processor: () => undefined });
  // @ts-expect-error a criterion answers with true or false
  model.generate("text", {}, { stopping_criteria: [() => 1] });
  // @ts-expect-error a number is no prompt
  model.generate(5);
  // @ts-expect-error a misspelt load option
  await load("./model.gguf", { contextlength: 5 });
  // @ts-expect-error a cache type that is not supported yet
  await load("./model.gguf", { kvCache: "q8_0" });
  // @ts-expect-error a list of names is no list of files
  await load(["config.json"]);
  // @ts-expect-error a format that weights are not quantised to
  await load("owner/repo", { quantize: "q5_0" });
  // @ts-expect-error options of the tokenizer are checked too
  await model.tokenizer.encode("text", { special: true });
  // @ts-expect-error info is not to be changed
  model.info = {};
  // @ts-expect-error an event has no such field
  void event.token;
  // @ts-expect-error a generation is not a promise of text
  const text: string = await model.generate("text");
  void text;
}

void [good, bad];
