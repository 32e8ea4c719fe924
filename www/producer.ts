/** The engine's end of one generation: computes what was granted, a little ahead, and not more. */

import type { Engine as WasmModel, Generation as WasmGeneration } from "./bindings/decant.js";
import type { Engine } from "./engine.js";
import { toWire } from "./errors.js";
import { RUN_AHEAD, type ToConsumer, type ToEngine, type ToProducer } from "./protocol.js";

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
  { input, config, port }: Extract<ToEngine, { type: "generate" }>,
): Production {
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
    wake();
  };
  port.onmessage = ({ data }: MessageEvent<ToProducer>) => {
    if (data.type === "stop") return stop();
    granted = data.type === "drain" ? Infinity : granted + 1;
    wake();
  };

  const run = async (): Promise<ToConsumer> => {
    try {
      generation = engine.run(() => model.generate(JSON.stringify(input), JSON.stringify(config)));
      const running = generation;
      if (stopped) running.stop();
      for (let computed = 0; ; computed += 1) {
        while (!stopped && (granted === 0 || computed >= granted + RUN_AHEAD)) {
          await new Promise<void>((resolve) => (wake = resolve));
        }
        // An engine that never waits for a device would keep the thread to itself, and no stop would be heard.
        await turn();
        const event = await engine.wait(() => running.next());
        if (event === undefined) break;
        port.postMessage({ type: "event", event: JSON.parse(event) } satisfies ToConsumer);
      }
      return { type: "end", result: JSON.parse(engine.run(() => running.result())) };
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
    port.postMessage(last);
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
