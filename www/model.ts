/** A loaded model as the page sees it. */

import type { GenerationConfig } from "./config.js";
import type { Connection } from "./connection.js";
import { DecantError, optionError } from "./errors.js";
import { describe, knownKeys, plain, type Plain } from "./plain.js";
import type { Loaded } from "./protocol.js";
import { Generation } from "./stream.js";
import type {
  ChatTemplateOptions,
  GenerateOptions,
  Input,
  Logits,
  Message,
  ModelInfo,
  Plan,
  Stats,
} from "./types.js";

/** A model that is ready to generate. Made by `load`, released by {@link unload}. */
export class Model {
  readonly #connection: Connection;
  /** What was loaded, and what runs it. */
  readonly info: ModelInfo;
  /** The model's own generation options, which a call's options override. */
  readonly generation_config: Readonly<GenerationConfig>;
  /** Text to token ids and back. */
  readonly tokenizer: Tokenizer;

  /** @internal */
  constructor(connection: Connection, { info, generationConfig }: Loaded) {
    this.#connection = connection;
    this.info = info;
    this.generation_config = Object.freeze(generationConfig as GenerationConfig);
    this.tokenizer = new Tokenizer(connection);
  }

  /**
   * Goes on from `input`. Nothing happens before the answer is iterated or its `result` is looked at;
   * errors of the arguments appear there too.
   */
  generate(input: Input, config: GenerationConfig = {}, options: GenerateOptions = {}): Generation {
    const signal = options?.signal;
    return new Generation(
      (fail) => {
        knownKeys(options, ["signal"], "generate");
        checkSignal(signal);
        return this.#connection.generate(plainInput(input), plainConfig(config), fail);
      },
      signal instanceof AbortSignal ? signal : undefined,
    );
  }

  /** What `generate` would do with `config`: each value and who gave it, each stage in order. */
  async explain(config: GenerationConfig = {}): Promise<Plan> {
    return (await this.#connection.call("explain", plainConfig(config))) as Plan;
  }

  /** The logits of every position of `ids`, computed without touching any generation. */
  async forward(ids: readonly number[]): Promise<Logits> {
    return this.#connection.call("forward", plainIds(ids, "ids"));
  }

  /** What the model has done since it was loaded. */
  async stats(): Promise<Stats> {
    return (await this.#connection.call("stats")) as Stats;
  }

  /**
   * Frees everything. Running generations end with an error of code `"closed"`, as does everything that
   * is called afterwards, except `unload` itself.
   */
  unload(): Promise<void> {
    return this.#connection.close();
  }
}

/** A model's vocabulary and chat template. */
export class Tokenizer {
  readonly #connection: Connection;

  /** @internal */
  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The ids of `text`, by default with the special tokens that a prompt of this model begins or ends with. */
  async encode(text: string, options: { add_special_tokens?: boolean } = {}): Promise<number[]> {
    knownKeys(options, ["add_special_tokens"], "encode");
    const special = flag(options.add_special_tokens, "add_special_tokens", true);
    return this.#connection.call("encode", plainText(text, "text"), special);
  }

  /** The text of `ids`, special tokens included unless they are to be skipped. */
  async decode(
    ids: readonly number[],
    options: { skip_special_tokens?: boolean } = {},
  ): Promise<string> {
    knownKeys(options, ["skip_special_tokens"], "decode");
    const skip = flag(options.skip_special_tokens, "skip_special_tokens", false);
    return this.#connection.call("decode", plainIds(ids, "ids"), skip);
  }

  /** How many tokens a prompt of `text` has. */
  async count(text: string): Promise<number> {
    return (await this.encode(text)).length;
  }

  /** `messages` as the prompt that the model's template makes of them. */
  async apply_chat_template(
    messages: readonly Message[],
    options: ChatTemplateOptions = {},
  ): Promise<string> {
    return this.#connection.call("chat", plain(messages, "messages"), plain(options, ""));
  }
}

/** Fails unless `signal` is one, or is not given. */
export function checkSignal(signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw optionError("signal", `expected an AbortSignal, found ${describe(signal)}`);
  }
}

function plainConfig(config: unknown): Plain {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw optionError("config", `expected an object, found ${describe(config)}`);
  }
  return plain(config, "");
}

function plainInput(input: unknown): Plain {
  if (typeof input !== "string" && !Array.isArray(input) && !ArrayBuffer.isView(input)) {
    throw new DecantError(
      "invalid_input",
      `input: expected text, messages or token ids, found ${describe(input)}`,
      "input",
    );
  }
  return plain(input, "input");
}

function plainText(text: unknown, name: string): string {
  if (typeof text === "string") return text;
  throw new DecantError("invalid_input", `${name}: expected text, found ${describe(text)}`, name);
}

function plainIds(ids: unknown, name: string): number[] {
  const list: unknown[] | undefined =
    Array.isArray(ids) || ArrayBuffer.isView(ids)
      ? Array.from(ids as unknown as ArrayLike<unknown>)
      : undefined;
  const wrong = list === undefined ? ids : list.find((id) => !isId(id));
  if (list === undefined || !list.every(isId)) {
    throw new DecantError(
      "invalid_input",
      `${name}: expected a list of token ids, found ${describe(wrong)}`,
      name,
    );
  }
  return list;
}

function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32;
}

function flag(value: unknown, name: string, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value === "boolean") return value;
  throw optionError(name, `expected true or false, found ${describe(value)}`);
}
