/**
 * What the user has set, and nothing else: a knob left untouched has no entry and is not sent,
 * so that the provenance in the plan is the truth.
 */

import type { GenerationConfig } from "decant";
import type { KnobKey } from "./knobs.js";

/** Sets of knobs to start from. `first` is what the page itself begins with: Hugging Face's own default
 * of 20 new tokens would cut every answer in its second sentence. */
export const PRESETS = {
  first: { max_new_tokens: 200 },
  untouched: {},
  balanced: {
    do_sample: true,
    temperature: 0.7,
    top_p: 0.9,
    repetition_penalty: 1.1,
    max_new_tokens: 200,
  },
  inventive: { do_sample: true, temperature: 1.1, min_p: 0.05, max_new_tokens: 300 },
} satisfies Record<string, GenerationConfig>;

/** Fires `change` whenever a value is set or taken back. */
export class Settings extends EventTarget {
  #values = new Map<KnobKey, unknown>();

  constructor(initial: GenerationConfig) {
    super();
    this.#fill(initial);
  }

  /** The value the user set, or `undefined` where the knob was left alone. */
  get(key: KnobKey): unknown {
    return this.#values.get(key);
  }

  /** Sets a knob; `undefined` gives it back to the model file and the library. */
  set(key: KnobKey, value: unknown): void {
    if (value === undefined) this.#values.delete(key);
    else this.#values.set(key, value);
    this.dispatchEvent(new Event("change"));
  }

  /** Forgets everything set so far and takes these values instead. */
  replace(values: GenerationConfig): void {
    this.#values.clear();
    this.#fill(values);
    this.dispatchEvent(new Event("change"));
  }

  /** Exactly what is sent with the next call. */
  config(): GenerationConfig {
    return Object.fromEntries(this.#values) as GenerationConfig;
  }

  #fill(values: GenerationConfig): void {
    for (const [key, value] of Object.entries(values)) this.#values.set(key as KnobKey, value);
  }
}
