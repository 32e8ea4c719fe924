// Every way to generate, through the package: one case a mode on the tiny model, in a worker and on the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";
import { tiny, VOCABULARY, vocabulary } from "./support/tiny.mjs";

let site;
/** The file at /healed.gguf. */
let healed;
before(async () => {
  site = await open({
    intercept: (request, response, { pathname }) => {
      if (pathname !== "/healed.gguf") return false;
      response.writeHead(200, { "Content-Length": healed.length });
      response.end(request.method === "HEAD" ? undefined : healed);
      return true;
    },
  });
});
after(() => site.close());

for (const worker of [true, false]) {
  const where = worker ? "in a worker" : "in the page";
  let browser;
  /** What the model says greedily after the prompt. */
  let greedy;
  /** The result of a call, and its events. */
  const run = (input, config, options = {}) =>
    browser.run(
      async ([input, config, { assisted, ...options }]) => {
        if (assisted) options.assistant_model = assistant;
        const generation = model.generate(input, config, options);
        const events = [];
        for await (const event of generation) events.push(event);
        return { ...(await generation.result), events };
      },
      [input, config, options],
    );
  const refusal = (input, config, options = {}) =>
    browser.run(
      async ([input, config, { assistant_model, ...options }]) => {
        if (assistant_model !== undefined) options.assistant_model = globalThis[assistant_model];
        const { result } = model.generate(input, config, options);
        return result.then(
          () => "accepted",
          ({ code, field, message }) => ({ code, field, message }),
        );
      },
      [input, config, options],
    );
  const shown = ({ events, sequences, texts }) => {
    const answers = sequences.map((ids, sequence) => {
      const own = events.filter((event) => event.sequence === sequence);
      assert.deepEqual(
        own.map(({ token_id }) => token_id),
        ids,
      );
      return own.map(({ text }) => text).join("");
    });
    assert.deepEqual(answers, texts);
  };
  const PROMPT = "Hello, hello, he";

  test(`loads a model and its assistant ${where}`, async () => {
    browser = await site.page();
    greedy = await browser.run(async (worker) => {
      const options = { kvCache: "f32", cache: "none" };
      globalThis.model = await decant.load("./tiny.gguf", { ...options, worker });
      globalThis.assistant = await decant.load("./tiny.gguf", { ...options, worker: model });
      const { sequences } = await model.generate("Hello, hello, he", { max_new_tokens: 12 }).result;
      return sequences[0];
    }, worker);
    assert.equal(greedy.length, 12);
  });

  test(`searches with beams ${where}`, async () => {
    const config = {
      num_beams: 2,
      num_return_sequences: 2,
      max_new_tokens: 8,
      output_scores: true,
    };
    const found = await run([PROMPT, "abc"], config);
    assert.equal(found.plan.strategy, "beam_search");
    assert.equal(found.sequences.length, 4);
    shown(found);
    const { sequences, sequences_scores, beam_indices, transition_scores, scores } = found;
    assert.equal(scores.length, 4, "a row for each beam of each prompt");
    for (let i = 0; i < 4; i += 1) {
      assert.ok(beam_indices[i].every((row) => Math.floor(row / 2) === Math.floor(i / 2)));
      const total = transition_scores[i].reduce((sum, score) => sum + score, 0);
      assert.ok(Math.abs(sequences_scores[i] - total / sequences[i].length) < 1e-3);
    }
    assert.ok(sequences_scores[0] >= sequences_scores[1]);
    const one = await run(PROMPT, { num_beams: 2, max_new_tokens: 8 });
    assert.deepEqual(one.sequences[0], sequences[0], "a batch is searched as its prompts alone");
    const never = { num_beams: 2, early_stopping: "never", length_penalty: 2, max_new_tokens: 6 };
    assert.equal((await run(PROMPT, never)).stop_reason, "max_new_tokens");
  });

  test(`samples, with and without beams ${where}`, async () => {
    const config = {
      do_sample: true,
      seed: 4,
      max_new_tokens: 8,
      num_return_sequences: 3,
      top_k: 0,
    };
    const [first, again] = [await run(PROMPT, config), await run(PROMPT, config)];
    assert.deepEqual(first.sequences, again.sequences);
    assert.equal(new Set(first.sequences.map(String)).size, 3);
    shown(first);
    const beams = { ...config, num_beams: 3, num_return_sequences: 1 };
    const searched = await run(PROMPT, beams);
    assert.equal(searched.plan.strategy, "beam_sample");
    assert.deepEqual(searched.sequences, (await run(PROMPT, beams)).sequences);
  });

  test(`verifies what an assistant or the prompt proposes ${where}`, async () => {
    const config = { max_new_tokens: 12, num_assistant_tokens: 4 };
    const assisted = await run(PROMPT, config, { assisted: true });
    assert.equal(assisted.plan.strategy, "assisted_generation");
    assert.deepEqual(assisted.sequences[0], greedy);
    shown(assisted);
    assert.ok(assisted.speculation.accepted > 0, "it is the same model, so it is right");
    assert.equal(
      assisted.speculation.acceptance_rate,
      assisted.speculation.accepted / assisted.speculation.drafted,
    );
    const lookup = await run(PROMPT, { max_new_tokens: 12, prompt_lookup_num_tokens: 3 });
    assert.deepEqual(lookup.sequences[0], greedy);
    const sampled = { ...config, do_sample: true, seed: 1 };
    const drawn = await run(PROMPT, sampled, { assisted: true });
    assert.equal(drawn.usage.completion_tokens, 12);
    assert.deepEqual(drawn.sequences, (await run(PROMPT, sampled, { assisted: true })).sequences);
  });

  test(`refuses an assistant that cannot be one ${where}`, async () => {
    await browser.run(async () => {
      globalThis.far = await decant.load("./tiny.gguf", { cache: "none", worker: true });
      globalThis.nothing = { generate() {} };
    });
    const refused = [
      ["far", {}, "runs in another worker"],
      ["model", {}, "this model itself"],
      ["nothing", {}, "expected another loaded model"],
      ["assistant", { num_beams: 2 }, "num_beams 1"],
    ];
    for (const [assistant_model, config, why] of refused) {
      const error = await refusal(PROMPT, config, { assistant_model });
      assert.deepEqual([error.code, error.field], ["invalid_option", "assistant_model"]);
      assert.ok(error.message.includes(why), error.message);
    }
    const batch = await refusal(["a", "b"], { prompt_lookup_num_tokens: 2 });
    assert.equal(batch.field, "prompt_lookup_num_tokens");
    await browser.run(() => far.unload());
    assert.deepEqual((await run(PROMPT, { max_new_tokens: 12 })).sequences[0], greedy);
  });

  test(`guides away from a negative prompt ${where}`, async () => {
    const config = { guidance_scale: 3, max_new_tokens: 8 };
    const guided = await run(PROMPT, config, { negative_prompt: "Goodbye" });
    assert.equal(guided.plan.processors[0].name, "guidance_scale");
    assert.notDeepEqual(guided.sequences[0], greedy.slice(0, 8));
    const plain = await run(PROMPT, { ...config, guidance_scale: 1 }, { negative_prompt: "x" });
    assert.deepEqual(plain.sequences[0], greedy.slice(0, 8));
    assert.ok(plain.plan.warnings.some(({ field }) => field === "negative_prompt"));
  });

  test(`answers a ragged batch as its prompts alone, padded or not ${where}`, async () => {
    const config = { max_new_tokens: 6 };
    const alone = [await run([1, 2], config), await run([7, 8, 9, 10], config)];
    const expected = alone.map(({ sequences }) => sequences[0]);
    const batch = await run(
      [
        [1, 2],
        [7, 8, 9, 10],
      ],
      config,
    );
    assert.deepEqual(batch.sequences, expected);
    shown(batch);
    const padded = [
      [0, 0, 1, 2],
      [7, 8, 9, 10],
    ];
    const attention_mask = [
      [0, 0, 1, 1],
      [1, 1, 1, 1],
    ];
    assert.deepEqual((await run(padded, config, { attention_mask })).sequences, expected);
    const error = await refusal(padded, config, {
      attention_mask: [
        [1, 0, 1, 1],
        [1, 1, 1, 1],
      ],
    });
    assert.deepEqual([error.code, error.field], ["invalid_option", "attention_mask"]);
  });

  test(`gives scores, logits and log-probabilities ${where}`, async () => {
    const config = {
      max_new_tokens: 3,
      output_scores: true,
      output_logits: true,
      top_logprobs: 2,
      suppress_tokens: [greedy[0]],
      return_dict_in_generate: true,
    };
    const answer = await browser.run(async (config) => {
      const generation = model.generate("Hello, hello, he", config);
      const events = [];
      for await (const event of generation) events.push(event);
      const { scores, logits, logprobs, sequences, transition_scores } = await generation.result;
      return {
        events,
        logprobs,
        ids: sequences[0],
        transitions: transition_scores[0],
        classes: [scores[0][0], logits[0][0]].map((row) => row.constructor.name),
        shapes: [scores, logits].map((rows) => [rows.length, rows[0].length, rows[0][0].length]),
        chosen: sequences[0].map((id, step) => scores[0][step][id]),
        suppressed: [scores[0][0], logits[0][0]].map((row) =>
          Number.isFinite(row[config.suppress_tokens[0]]),
        ),
      };
    }, config);
    assert.deepEqual(answer.classes, ["Float32Array", "Float32Array"]);
    assert.deepEqual(answer.shapes, [
      [1, 3, VOCABULARY],
      [1, 3, VOCABULARY],
    ]);
    assert.deepEqual(answer.suppressed, [false, true]);
    answer.chosen.forEach((score, step) =>
      assert.ok(Math.abs(score - answer.transitions[step]) < 1e-5),
    );
    for (const [step, { token_id, logprob, top_logprobs }] of answer.events.entries()) {
      assert.equal(token_id, answer.ids[step]);
      assert.equal(top_logprobs.length, 2);
      assert.deepEqual(top_logprobs[0], { token_id, logprob });
      assert.deepEqual(answer.logprobs[0][step], { logprob, top_logprobs });
    }
  });

  test(`computes again without a cache and in chunks ${where}`, async () => {
    const without = await run(PROMPT, { max_new_tokens: 12, use_cache: false });
    assert.deepEqual(without.sequences[0], greedy);
    const chunks = await run(PROMPT, { max_new_tokens: 12, prefill_chunk_size: 2 });
    assert.deepEqual(chunks.sequences[0], greedy);
  });

  test(`heals a prompt that was cut inside a token ${where}`, async () => {
    // Bytes begin like no other token, so there is nothing to heal; the option changes nothing.
    const same = await run(PROMPT, { max_new_tokens: 12, token_healing: true });
    assert.deepEqual(same.sequences[0], greedy);
    // The letter that the model expects least here, and a vocabulary in which the token that it expects most begins
    // like that letter.
    const { ids, letter } = await browser.run(async (text) => {
      const ids = await model.tokenizer.encode(text);
      const { data, shape } = await model.forward(ids);
      const last = data.slice((shape[0] - 1) * shape[1]);
      const letters = Array.from({ length: 26 }, (_, i) => "a".charCodeAt() + i);
      return { ids, letter: letters.reduce((a, b) => (last[a] <= last[b] ? a : b)) };
    }, PROMPT);
    assert.notEqual(letter, greedy[0]);
    const whole = `${String.fromCharCode(letter)}!`;
    const tokens = vocabulary((tokens) => tokens.with(greedy[0], whole));
    healed = tiny({ "tokenizer.ggml.tokens": tokens });
    const answers = await browser.run(
      async ([ids, worker]) => {
        const options = { kvCache: "f32", cache: "none", worker };
        const model = await decant.load("./healed.gguf", options);
        const answer = async (token_healing) => {
          const generation = model.generate(ids, { max_new_tokens: 11, token_healing });
          let shown = "";
          for await (const { text } of generation) shown += text;
          const { sequences, texts } = await generation.result;
          return { ids: sequences[0], text: texts[0], shown };
        };
        const answers = { with: await answer(true), without: await answer(false) };
        await model.unload();
        return answers;
      },
      [[...ids, letter], worker],
    );
    assert.deepEqual(answers.with.ids, greedy.slice(1), "as after the token that was cut");
    assert.equal(answers.with.text[0], "!", "and the rest of that token is the answer's");
    assert.equal(answers.with.shown, answers.with.text);
    assert.notDeepEqual(answers.without.ids, answers.with.ids);
    assert.equal(answers.without.shown, answers.without.text);
  });

  test(`a stopped search gives its beams, and an unloaded assistant is missed ${where}`, async () => {
    const stopped = await browser.run(async () => {
      let asked = 0;
      const processor = () => {
        // The fourth step of two beams.
        if (++asked === 7) generation.stop();
      };
      const config = { num_beams: 2, num_return_sequences: 2, max_new_tokens: 50 };
      const generation = model.generate("abc", config, { logits_processor: [processor] });
      const events = [];
      for await (const event of generation) events.push(event);
      const used = (await model.stats()).cache_bytes_used;
      return { ...(await generation.result), events, used, asked };
    });
    assert.equal(stopped.stop_reason, "aborted");
    assert.equal(stopped.used, 0);
    const length = stopped.sequences[0].length;
    console.log(`stopped after ${stopped.asked} questions with ${length} tokens`);
    assert.ok(length > 0 && length < 50, `${length} tokens`);
    assert.deepEqual(stopped.events, [], "nothing is shown after a stop, and nothing was final");
    const whole = await run("abc", {
      num_beams: 2,
      num_return_sequences: 2,
      max_new_tokens: length,
    });
    assert.deepEqual(stopped.sequences, whole.sequences);
    assert.deepEqual(stopped.texts, whole.texts);
    await browser.run(() => assistant.unload());
    const error = await refusal(PROMPT, {}, { assistant_model: "assistant" });
    assert.equal(error.code, "closed");
    assert.deepEqual((await run(PROMPT, { max_new_tokens: 12 })).sequences[0], greedy);
    assert.deepEqual(await browser.stray(), []);
    await browser.close();
  });
}
