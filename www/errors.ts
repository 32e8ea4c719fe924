/**
 * Errors at the public face, and how they cross from the engine's thread to the page's.
 *
 * The engine names a code for what the caller can do (`ErrorKind` in `src/error.rs`); the page turns it
 * into a {@link DecantError}. Cancelling is not an error of ours: it is the reason of the signal, by
 * default the standard `AbortError`.
 */

/** What the caller can do about a {@link DecantError}. */
export type ErrorCode =
  /** An option has a value that is not allowed, or its name is unknown: change the option. */
  | "invalid_option"
  /** The prompt cannot be used: change it. */
  | "invalid_input"
  /** The model file is damaged or lies about itself: get another file. */
  | "invalid_weights"
  /** The vocabulary cannot be used: get another file. */
  | "invalid_tokenizer"
  /** The chat template refused the messages or cannot be rendered. */
  | "invalid_template"
  /** The file or option is sound, but this version or this machine has no support for it. */
  | "unsupported"
  /** The device has not enough memory: choose a smaller model or context. */
  | "out_of_memory"
  /** The device is gone: load the model again. */
  | "device_lost"
  /** Prompt and answer do not fit the context: shorten the prompt or load with a longer context. */
  | "context_full"
  /** No token can be chosen: the scores hold NaN, or every token was removed. */
  | "invalid_scores"
  /** The model was unloaded, or the generation was already consumed. */
  | "closed"
  /** The model's bytes could not be fetched: the address or the network is at fault. */
  | "network"
  /** A defect in this package: report it, and load the model again. */
  | "internal";

/** An error of this package. `code` is for programs, `message` for people. */
export class DecantError extends Error {
  override readonly name = "DecantError";
  /** What the caller can do about it. */
  readonly code: ErrorCode;
  /** The option, tensor or metadata key at fault, where there is one. */
  readonly field: string | undefined;

  constructor(code: ErrorCode, message: string, field?: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.field = field;
  }
}

/** An option with a value that is not allowed; the message begins with its name. */
export function optionError(field: string, message: string): DecantError {
  return new DecantError("invalid_option", `${field}: ${message}`, field);
}

/** A prompt, or a part of one, that cannot be used; the message begins with its name. */
export function inputError(field: string, message: string): DecantError {
  return new DecantError("invalid_input", `${field}: ${message}`, field);
}

/** An error on its way between threads, which copy plain data and lose classes. */
export interface WireError {
  /** A code of this package, or null for an error that is not ours: `name` says which. */
  code: ErrorCode | null;
  name: string;
  message: string;
  field?: string;
}

/** `error` as plain data. */
export function toWire(error: unknown): WireError {
  if (error instanceof DecantError) {
    const { code, name, message, field } = error;
    return field === undefined ? { code, name, message } : { code, name, message, field };
  }
  if (error instanceof Error || error instanceof DOMException) {
    return { code: null, name: error.name, message: error.message };
  }
  return { code: null, name: "Error", message: String(error) };
}

/** The error that {@link toWire} described. */
export function fromWire(wire: WireError): Error {
  if (wire.code !== null) return new DecantError(wire.code, wire.message, wire.field);
  if (wire.name === "AbortError") return new DOMException(wire.message, wire.name);
  return new DecantError("internal", `${wire.name}: ${wire.message}`);
}
