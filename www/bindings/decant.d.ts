/** What the compiled engine exports (`src/web/`). */
export default function init(options: {
  module_or_path: URL | Promise<Response>;
}): Promise<unknown>;
export function __wbg_reset_state(): void;
export function start(on_panic: (message: string) => void): void;
export class Loader {
  constructor(options: string);
  push(bytes: Uint8Array): Promise<void>;
  finish(): Promise<Engine>;
  free(): void;
}
export class Engine {
  private constructor();
  info(): string;
  generation_config(): string;
  explain(config: string): string;
  stats(): string;
  encode(text: string, add_special_tokens: boolean): Uint32Array;
  decode(ids: Uint32Array, skip_special_tokens: boolean): string;
  apply_chat_template(messages: string, options: string): string;
  forward(ids: Uint32Array): Promise<Float32Array>;
  generate(input: string, config: string): Generation;
  free(): void;
}
export class Generation {
  private constructor();
  next(): Promise<string | undefined>;
  stop(): void;
  result(): string;
  free(): void;
}
