// The caller's own functions, which live on the page, beside an engine in a worker and on the page; and what
// a config does to one row of scores.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { open } from "./support/harness.mjs";
import { VOCABULARY } from "./support/tiny.mjs";

let site;
before(async () => {
  site = await open();
});
after(() => site.close());

for (const worker of [true, false]) {
  const where = worker ? "in a worker" : "in the page";
  let browser;

  test(`loads ${where}`, async () => {
    browser = await site.page();
    await browser.run(async (worker) => {
      const options = { worker, kvCache: "f32", cache: "none" };
      globalThis.model = await decant.load("./tiny.gguf", options);
      globalThis.answer = (input, config, options) => model.generate(input, config, options).result;
      globalThis.refusal = async (promise) => {
        try {
          return { answer: await promise };
        } catch (error) {
          const { name, code, field, message } = error;
          return { name, code, field, message, same: error === globalThis.thrown };
        }
      };
    }, worker);
  });

  test(`a processor sees ids and scores and may change or return them ${where}`, async () => {
    const { inPlace, returned, list, seen, plan } = await browser.run(async () => {
      const seen = [];
      const inPlace = await answer(
        [1, 2],
        { max_new_tokens: 3 },
        {
          logits_processor: [
            (input_ids, scores, sequence) => {
              seen.push([[...input_ids], scores.length, sequence]);
              scores[65] = 100;
            },
          ],
        },
      );
      const returned = await answer(
        [1, 2],
        { max_new_tokens: 2 },
        {
          logits_processor: [
            async (_, scores) => scores.map((score, id) => (id === 66 ? 100 : score)),
            (_, scores) => scores.map((score, id) => (id === 67 ? scores[66] + 1 : score)),
          ],
        },
      );
      const config = { max_new_tokens: 1 };
      const ones = (_, scores) => Array.from(scores, (_, id) => (id === 68 ? 1 : 0));
      const list = await answer([1], config, { logits_processor: [ones] });
      return { inPlace, returned, list, seen, plan: inPlace.plan };
    });
    assert.equal(inPlace.text, "AAA");
    assert.equal(returned.text, "CC");
    assert.equal(list.text, "D");
    const ids = [
      [1, 2],
      [1, 2, 65],
      [1, 2, 65, 65],
    ];
    assert.deepEqual(
      seen,
      ids.map((ids) => [ids, VOCABULARY, 0]),
    );
    const own = { name: "logits_processor", args: { index: 0 }, source: "call" };
    assert.deepEqual(plan.processors, [own]);
  });

  test(`criteria end their sequence, prefixes restrict each prompt ${where}`, async () => {
    const { ended, restricted, beams } = await browser.run(async () => {
      const ended = await answer(
        ["abc", "abd"],
        { max_new_tokens: 5 },
        { stopping_criteria: [(ids, scores, sequence) => sequence === 1 && ids.length === 5] },
      );
      const restricted = await answer(
        ["abc", "abd"],
        { max_new_tokens: 2 },
        { prefix_allowed_tokens_fn: (batch_id) => (batch_id === 0 ? [70] : Uint32Array.of(71)) },
      );
      const beams = await answer(
        "abc",
        { max_new_tokens: 3, num_beams: 2 },
        {
          prefix_allowed_tokens_fn: async () => ({ length: 2, 0: 72, 1: 73 }),
          stopping_criteria: [(ids) => ids.length === 5],
        },
      );
      return { ended, restricted, beams };
    });
    assert.deepEqual(ended.stop_reasons, ["max_new_tokens", "custom"]);
    assert.deepEqual(
      ended.sequences.map((ids) => ids.length),
      [5, 2],
    );
    assert.deepEqual(restricted.texts, ["FF", "GG"]);
    assert.equal(beams.stop_reason, "custom");
    assert.ok(beams.sequences[0].every((id) => id === 72 || id === 73));
  });

  test(`what a function throws is what the generation ends with ${where}`, async () => {
    const { thrown, iterated, wrong, after } = await browser.run(async () => {
      globalThis.thrown = new TypeError("on purpose");
      const fail = () => {
        throw globalThis.thrown;
      };
      const thrown = [];
      for (const options of [
        { logits_processor: [fail] },
        { stopping_criteria: [async () => fail()] },
        { prefix_allowed_tokens_fn: fail },
      ]) {
        thrown.push(await refusal(answer("abc", {}, options)));
      }
      const generation = model.generate("abc", {}, { logits_processor: [fail] });
      const iterated = await refusal(
        (async () => {
          for await (const event of generation) return event;
        })(),
      );
      const wrong = [];
      for (const options of [
        { logits_processor: [(_, scores) => scores.subarray(1)] },
        { logits_processor: [() => "scores"] },
        { logits_processor: [(_, scores) => Array.from(scores, String)] },
        { logits_processor: [(_, scores) => scores.fill(NaN)] },
        { logits_processor: (_, scores) => scores },
        { logits_processor: [1] },
        { stopping_criteria: [() => 1] },
        { stopping_criteria: [null] },
        { prefix_allowed_tokens_fn: () => [] },
        { prefix_allowed_tokens_fn: () => [-1] },
        { prefix_allowed_tokens_fn: () => [258] },
        { prefix_allowed_tokens_fn: () => 3 },
        { prefix_allowed_tokens_fn: [3] },
      ]) {
        wrong.push(await refusal(answer("abc", {}, options)));
      }
      const after = await answer("abc", { max_new_tokens: 2 });
      return { thrown, iterated, wrong, after };
    });
    for (const { same, message } of [...thrown, iterated]) assert.ok(same, message);
    const fields = wrong.map(({ code, field }) => `${code} ${field}`);
    const each = (name, count) => Array(count).fill(`invalid_option ${name}`);
    assert.deepEqual(fields, [
      ...each("logits_processor", 3),
      "invalid_scores undefined",
      ...each("logits_processor", 2),
      ...each("stopping_criteria", 2),
      ...each("prefix_allowed_tokens_fn", 5),
    ]);
    assert.match(wrong[0].message, /257 scores, allowed: 258/);
    assert.equal(after.usage.completion_tokens, 2, "the model is as good as new");
  });

  test(`a stop, an abort and a break do not wait for a function that never answers ${where}`, async () => {
    const { stopped, aborted, left, stats, after } = await browser.run(async () => {
      const never = () => {
        let asked;
        const once = new Promise((resolve) => (asked = resolve));
        const hang = (_, scores) => {
          asked();
          return new Promise(() => {});
        };
        return { once, options: { logits_processor: [hang] } };
      };
      const first = never();
      const generation = model.generate("abc", {}, first.options);
      const { result } = generation;
      await first.once;
      generation.stop();
      const stopped = await result;

      const second = never();
      const controller = new AbortController();
      const signal = controller.signal;
      const aborting = answer("abc", {}, { ...second.options, signal });
      await second.once;
      controller.abort();
      const aborted = await refusal(aborting);

      const third = never();
      const iterator = model.generate("abc", {}, third.options)[Symbol.asyncIterator]();
      const pending = iterator.next();
      await third.once;
      await iterator.return();
      const left = await pending;
      const stats = await model.stats();
      const after = await answer("abc", { max_new_tokens: 2 });
      return { stopped, aborted, left, stats, after };
    });
    assert.equal(stopped.stop_reason, "aborted");
    assert.equal(aborted.name, "AbortError");
    assert.equal(left.done, true);
    assert.equal(stats.cache_bytes_used, 0);
    assert.equal(after.usage.completion_tokens, 2);
  });
}

test("applyProcessors runs a config's chain stage by stage, without a model", async () => {
  const browser = await site.page();
  const { applied, guided, wrong } = await browser.run(async () => {
    const scores = [4, 1, 3.9, 2, 0.5];
    const config = {
      do_sample: true,
      repetition_penalty: 1.5,
      logit_bias: { 3: 1 },
      top_k: 3,
      min_p: 0.5,
    };
    const applied = await decant.applyProcessors(scores, [0, 1], config, { prompt_length: 1 });
    const plain = (row) => [...row].map((score) => (score === -Infinity ? "-inf" : score));
    const steps = applied.steps.map((step) => ({ ...step, scores: plain(step.scores) }));
    const guided = await decant.applyProcessors(
      Float32Array.of(1, 2),
      [],
      { guidance_scale: 2 },
      { unconditional_scores: [2, 1] },
    );
    const refusal = (...args) =>
      decant.applyProcessors(...args).then(
        () => "accepted",
        ({ code, field }) => `${code} ${field}`,
      );
    const wrong = [
      await refusal("scores", [], {}),
      await refusal([1, "2"], [], {}),
      await refusal([1, 2], [2], {}),
      await refusal([1, 2], [-1], {}),
      await refusal([1, 2], [], { top_p: 2 }),
      await refusal([1, 2], [], { top_q: 2 }),
      await refusal([1, 2], [], { top_p: NaN }),
      await refusal([1, 2], [], {}, { prompt_length: 1.5 }),
      await refusal([1, 2], [0], {}, { prompt_length: 2 }),
      await refusal([1, 2], [0], {}, { prompt_length: 2 ** 32 }),
      await refusal([1, 2], [], {}, { prompt: 1 }),
      await refusal([1, 2], [], { guidance_scale: 2 }),
    ];
    return { applied: { scores: plain(applied.scores), steps }, guided: [...guided.scores], wrong };
  });
  const names = applied.steps.map(({ name, kept }) => [name, kept]);
  assert.deepEqual(names, [
    ["logit_bias", 5],
    ["repetition_penalty", 5],
    ["top_k", 3],
    ["min_p", 1],
  ]);
  assert.deepEqual(applied.steps[2].args, { top_k: 3 });
  assert.deepEqual(applied.steps[2].scores.filter((score) => score !== "-inf").length, 3);
  assert.deepEqual(applied.scores, applied.steps[3].scores);
  assert.deepEqual(
    applied.scores.map((score) => score !== "-inf"),
    [false, false, true, false, false],
  );
  // log softmax is (-1.3133, -0.3133) and the other way round; 2 · (c − u) + u.
  assert.ok(Math.abs(guided[0] + 2.3133) < 1e-3 && Math.abs(guided[1] - 0.6867) < 1e-3);
  assert.deepEqual(wrong, [
    "invalid_option scores",
    "invalid_option scores",
    "invalid_input undefined",
    "invalid_input input_ids",
    "invalid_option top_p",
    "invalid_option top_q",
    "invalid_option top_p",
    ...Array(3).fill("invalid_option prompt_length"),
    "invalid_option prompt",
    "invalid_input undefined",
  ]);
});
