/**
 * Caller's values as plain data, checked by name.
 *
 * JSON and structured cloning both lose things without a word: `undefined` in a list, NaN, functions,
 * class instances. A value that would not arrive as it was written is refused here, with its path.
 */

import { optionError } from "./errors.js";

/** What JSON can say. */
export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain };

/** Deeper nesting is taken for a cycle. */
const DEPTH = 64;

/**
 * A copy of `value` that JSON carries faithfully; `path` names it in errors.
 *
 * A key whose value is `undefined` counts as not given. Typed arrays of numbers become lists.
 */
export function plain(value: unknown, path: string, depth = DEPTH): Plain {
  if (depth === 0) throw optionError(path, "is nested too deeply, or contains itself");
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw optionError(path, `expected a finite number, found ${value}`);
    case "object":
      break;
    default:
      throw optionError(path, `expected plain data, found ${describe(value)}`);
  }
  if (value === null) return null;
  if (Array.isArray(value) || isNumbers(value)) {
    // Array.from visits holes, which must be refused as undefined rather than skipped.
    return Array.from(value as ArrayLike<unknown>, (item, index) =>
      plain(item, `${path}[${index}]`, depth - 1),
    );
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    throw optionError(path, `expected plain data, found ${describe(value)}`);
  }
  const copy: { [key: string]: Plain } = {};
  for (const [key, item] of Object.entries(value)) {
    if (item === undefined) continue;
    // A plain assignment would let the key "__proto__" disappear.
    Object.defineProperty(copy, key, {
      value: plain(item, path === "" ? key : `${path}.${key}`, depth - 1),
      enumerable: true,
    });
  }
  return copy;
}

/** A copy of a list of numbers, NaN and the infinities among them, as floats. */
export function plainNumbers(values: unknown, refuse: Refuse): Float32Array<ArrayBuffer> {
  const good = (item: unknown) => typeof item === "number";
  return new Float32Array(checked(values, "numbers", good, refuse));
}

/** A copy of a list of token ids. */
export function plainIds(values: unknown, refuse: Refuse): Uint32Array<ArrayBuffer> {
  const good = (item: unknown) =>
    Number.isInteger(item) && (item as number) >= 0 && (item as number) < 2 ** 32;
  return new Uint32Array(checked(values, "token ids", good, refuse));
}

/** Makes an error of what is wrong. */
type Refuse = (message: string) => Error;

/** `values`, which must be a list, an array or anything like one, of good items. */
function checked(
  values: unknown,
  what: string,
  good: (item: unknown) => boolean,
  refuse: Refuse,
): ArrayLike<number> {
  const list = (typeof values === "object" ? values : null) as ArrayLike<unknown> | null;
  if (list === null || !Number.isInteger(list.length) || list.length < 0) {
    throw refuse(`expected a list of ${what}, found ${describe(values)}`);
  }
  // A loop by number visits holes, too.
  for (let at = 0; at < list.length; at += 1) {
    if (!good(list[at])) {
      throw refuse(`expected a list of ${what}, found ${describe(list[at])} at ${at}`);
    }
  }
  return list as ArrayLike<number>;
}

/** `value` in a few words, for a message. */
export function describe(value: unknown): string {
  switch (typeof value) {
    case "string":
      return `the text ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
    case "bigint":
      return `the BigInt ${value}n`;
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
    case "object":
      if (value === null) return "null";
      if (Array.isArray(value)) return `a list of ${value.length}`;
      return `an object of class ${value.constructor?.name ?? "unknown"}`;
    default:
      return String(value);
  }
}

/** Fails on the first key of `options` that is not in `known`. */
export function knownKeys(options: unknown, known: readonly string[], what: string): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw optionError(what, `expected an object, found ${describe(options)}`);
  }
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) {
      throw optionError(key, `is not an option of ${what}; known are ${known.join(", ")}`);
    }
  }
}

function isNumbers(value: object): boolean {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}
