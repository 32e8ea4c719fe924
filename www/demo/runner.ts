/** One generation at a time: start, stream, stop. */

import type { Generation, GenerationConfig, GenerationResult, Input, Model } from "decant";

/** Fires `start`, `text` for each piece of text, and `end`. Whoever wants to stop the work calls `stop`, whichever mode started it. */
export class Runner extends EventTarget {
  #generation: Generation | null = null;

  get running(): boolean {
    return this.#generation !== null;
  }

  /** Generates and hands over text as it is ready, gathered to at most one piece a frame.
   * Resolves with the result, also when the user stops it (`stop_reason` is then `aborted`). */
  async run(
    model: Model,
    input: Input,
    config: GenerationConfig,
    onText: (text: string) => void,
  ): Promise<GenerationResult> {
    const generation = model.generate(input, config);
    this.#generation = generation;
    this.dispatchEvent(new Event("start"));
    const frames = new FrameBuffer((text) => {
      onText(text);
      this.dispatchEvent(new Event("text"));
    });
    try {
      for await (const { text } of generation) frames.push(text);
      return await generation.result;
    } finally {
      frames.flush();
      this.#generation = null;
      this.dispatchEvent(new Event("end"));
    }
  }

  stop(): void {
    void this.#generation?.stop();
  }
}

/** Passes on what has gathered once a frame, so that a fast model does not cost a layout a token. */
class FrameBuffer {
  #text = "";
  #frame = 0;

  constructor(readonly onText: (text: string) => void) {}

  push(text: string): void {
    if (text === "") return;
    this.#text += text;
    if (this.#frame === 0) this.#frame = requestAnimationFrame(() => this.flush());
  }

  flush(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#text === "") return;
    const text = this.#text;
    this.#text = "";
    this.onText(text);
  }
}
