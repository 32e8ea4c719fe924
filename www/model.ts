/** A loaded model as the page sees it. */

import { Callbacks } from "./callbacks.js";
import type { GenerationConfig } from "./config.js";
import type { Connection } from "./connection.js";
import { inputError, optionError } from "./errors.js";
import { describe, knownKeys, plain, plainIds, type Plain } from "./plain.js";
import type { Loaded } from "./protocol.js";
import type { Stats } from "./figures.js";
import { Generation } from "./stream.js";
import type {
  ChatTemplateOptions,
  GenerateOptions,
  Input,
  Logits,
  Message,
  ModelInfo,
  Plan,
} from "./types.js";

/** The options of `generate`. */
const OPTIONS: readonly (keyof GenerateOptions)[] = [
  "signal",
  "assistant_model",
  "negative_prompt",
  "attention_mask",
  "logits_processor",
  "stopping_criteria",
  "prefix_allowed_tokens_fn",
  "profile",
];

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
        knownKeys(options, OPTIONS, "generate");
        checkSignal(signal);
        const callbacks = new Callbacks(options);
        const call = {
          input: plainInput(input),
          config: plainConfig(config),
          arguments: plainArguments(options),
          assistant: this.#assistant(options.assistant_model),
          functions: callbacks.functions,
        };
        return { ...this.#connection.generate(call, fail), callbacks };
      },
      signal instanceof AbortSignal ? signal : undefined,
    );
  }

  /** The line to the engine of `model`. @internal */
  static connection(model: Model): Connection {
    return model.#connection;
  }

  /** By what the engine finds the model that drafts. */
  #assistant(model: unknown): number | null {
    if (model === undefined) return null;
    if (!(model instanceof Model) || model === this) {
      const found = model === this ? "this model itself" : describe(model);
      throw optionError("assistant_model", `expected another loaded model, found ${found}`);
    }
    if (!this.#connection.isBeside(model.#connection)) {
      throw optionError(
        "assistant_model",
        "runs in another worker; load it with the option worker set to the model that it is to assist",
      );
    }
    return model.#connection.id;
  }

  /** What `generate` would do with `config`: each value and who gave it, each stage in order. */
  async explain(config: GenerationConfig = {}): Promise<Plan> {
    return (await this.#connection.call("explain", plainConfig(config))) as Plan;
  }

  /** The logits of every position of `ids`, computed without touching any generation. */
  async forward(ids: readonly number[]): Promise<Logits> {
    return this.#connection.call("forward", inputIds(ids));
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
    return this.#connection.call("decode", inputIds(ids), skip);
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

/** `config` as plain data. */
export function plainConfig(config: unknown): Plain {
  if (typeof config !== "object" || config === null || Array.isArray(config)) {
    throw optionError("config", `expected an object, found ${describe(config)}`);
  }
  return plain(config, "");
}

function plainInput(input: unknown, name = "input"): Plain {
  if (typeof input !== "string" && !Array.isArray(input) && !ArrayBuffer.isView(input)) {
    throw inputError(name, `expected text, messages or token ids, found ${describe(input)}`);
  }
  return plain(input, name);
}

/** The arguments that are plain data, without those that are not given. */
function plainArguments({ negative_prompt, attention_mask, profile }: GenerateOptions): Plain {
  const given: { [name: string]: Plain } = {};
  if (negative_prompt !== undefined) {
    given["negative_prompt"] = plainInput(negative_prompt, "negative_prompt");
  }
  if (attention_mask !== undefined) {
    given["attention_mask"] = plain(attention_mask, "attention_mask");
  }
  if (flag(profile, "profile", false)) given["profile"] = true;
  return given;
}

function plainText(text: unknown, name: string): string {
  if (typeof text === "string") return text;
  throw inputError(name, `expected text, found ${describe(text)}`);
}

function inputIds(ids: unknown): number[] {
  return Array.from(plainIds(ids, (message) => inputError("ids", message)));
}

function flag(value: unknown, name: string, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value === "boolean") return value;
  throw optionError(name, `expected true or false, found ${describe(value)}`);
}
