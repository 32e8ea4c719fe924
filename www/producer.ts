/** The engine's end of one generation: computes what was granted, a little ahead, and not more. */

import type { Engine as WasmModel, Generation as WasmGeneration } from "./bindings/decant.js";
import { Asking } from "./asking.js";
import type { Engine } from "./engine.js";
import { DecantError, toWire } from "./errors.js";
import { RUN_AHEAD, type ToConsumer, type ToEngine, type ToProducer } from "./protocol.js";
import type { GenerationEvent, GenerationResult } from "./types.js";

/** A generation that runs. */
export interface Production {
  /** Ends it early; resolves when its pages are free. */
  stop(): Promise<void>;
  /** Resolves when its pages are free. */
  ended: Promise<void>;
}

/** Runs the generation that `message` describes and reports on its port. */
export function produce(
  engine: Engine,
  model: WasmModel,
  message: Extract<ToEngine, { type: "generate" }>,
  find: (model: number) => WasmModel | undefined,
): Production {
  const { input, config, arguments: given, assistant, functions, port } = message;
  const asking = functions === null ? undefined : new Asking(functions, port);
  let granted = 0;
  let stopped = false;
  let generation: WasmGeneration | undefined;
  let wake: () => void = () => {};

  const stop = () => {
    stopped = true;
    try {
      engine.run(() => generation?.stop());
    } catch {
      // A dead engine has stopped already, and the run below says so.
    }
    asking?.stop();
    wake();
  };
  port.onmessage = ({ data }: MessageEvent<ToProducer>) => {
    switch (data.type) {
      case "stop":
        return stop();
      case "answer":
        return asking?.answer(data.answer);
      case "failed":
        return asking?.fail(data.message);
      case "drain":
        granted = Infinity;
        return wake();
      case "pull":
        granted += 1;
        return wake();
    }
  };

  const run = async (): Promise<ToConsumer> => {
    try {
      const [prompt, options, further] = [input, config, given].map((part) =>
        JSON.stringify(part),
      ) as [string, string, string];
      const drafter = assistant === null ? undefined : find(assistant);
      if (assistant !== null && drafter === undefined) {
        throw new DecantError("closed", "the assistant model was unloaded");
      }
      generation = engine.run(() =>
        drafter === undefined
          ? model.generate(prompt, options, further, asking)
          : model.generate_assisted(prompt, options, further, drafter, asking),
      );
      const running = generation;
      if (stopped) running.stop();
      for (let computed = 0; ;) {
        while (!stopped && (granted === 0 || computed >= granted + RUN_AHEAD)) {
          await new Promise<void>((resolve) => (wake = resolve));
        }
        // An engine that never waits for a device would keep the thread to itself, and no stop would be heard.
        await turn();
        const pulled = await engine.wait(() => running.next());
        if (pulled === undefined) break;
        const event = JSON.parse(pulled) as GenerationEvent | null;
        if (event === null) continue;
        computed += 1;
        port.postMessage({ type: "event", event } satisfies ToConsumer);
      }
      return { type: "end", result: engine.run(() => result(running)) };
    } catch (error) {
      return { type: "error", error: toWire(error) };
    }
  };

  const ended = run().then((last) => {
    try {
      engine.run(() => generation?.free());
    } catch {
      // A dead engine holds nothing that it could give back.
    }
    generation = undefined;
    port.postMessage(last, last.type === "end" ? buffers(last.result) : []);
    port.close();
  });
  return {
    stop: () => {
      stop();
      return ended;
    },
    ended,
  };
}

/** The result, with scores as rows of steps. */
function result(generation: WasmGeneration): GenerationResult {
  const { steps, ...result } = JSON.parse(generation.result()) as GenerationResult & {
    steps?: number[];
  };
  if (steps !== undefined) {
    const all = steps.reduce((sum, count) => sum + count, 0);
    for (const [name, flat] of [
      ["scores", generation.scores()],
      ["logits", generation.logits()],
    ] as const) {
      if (flat === undefined) continue;
      const vocabulary = flat.length / all;
      let step = 0;
      result[name] = steps.map((count) =>
        Array.from({ length: count }, () => flat.subarray(step * vocabulary, ++step * vocabulary)),
      );
    }
  }
  return result;
}

/** What moves to the page instead of being copied. */
function buffers({ scores, logits }: GenerationResult): ArrayBuffer[] {
  const steps = [...(scores ?? []), ...(logits ?? [])].flat();
  return [...new Set(steps.map(({ buffer }) => buffer as ArrayBuffer))];
}

/** Lets messages that have arrived be handled. Unlike a timer it costs microseconds. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
