/**
 * Decant: language-model text generation inside a web page, on the user's own GPU.
 *
 * ```ts
 * import { load } from "decant";
 *
 * const model = await load("./model.gguf");
 * for await (const { text } of model.generate("Once upon a time", { max_new_tokens: 64 })) {
 *   document.body.append(text);
 * }
 * ```
 */

export { applyProcessors } from "./apply.js";
export type { GenerationConfig } from "./config.js";
export { DecantError, type ErrorCode } from "./errors.js";
export type * from "./figures.js";
export { load } from "./load.js";
export type { Model, Tokenizer } from "./model.js";
export type { Generation } from "./stream.js";
export type * from "./types.js";
