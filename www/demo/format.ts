/** Numbers as people read them. Every function says which unit it takes. */

const DASH = "–";

/** Bytes in decimal megabytes or kilobytes, as download sizes are usually given: `98.4 MB`. */
export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return DASH;
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} GB`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(1)} MB`;
  if (count >= 1e3) return `${(count / 1e3).toFixed(0)} kB`;
  return `${count} B`;
}

/** Bytes in megabytes without the unit, for a reading beside a total: `2.6`. */
export function megabytes(count: number): string {
  return (count / 1e6).toFixed(1);
}

/** Milliseconds as `74 ms`, and from a tenth of a second on as `0.74 s`. */
export function duration(milliseconds: number | null | undefined): string {
  if (milliseconds === null || milliseconds === undefined) return DASH;
  if (milliseconds < 100) return `${milliseconds.toFixed(0)} ms`;
  const seconds = milliseconds / 1000;
  return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
}

/** Tokens per second with as many decimals as mean something: `0.42`, `5.1`, `128`. */
export function rate(tokensPerSecond: number | null | undefined): string {
  if (tokensPerSecond === null || tokensPerSecond === undefined) return DASH;
  if (tokensPerSecond >= 100) return tokensPerSecond.toFixed(0);
  return tokensPerSecond.toFixed(tokensPerSecond >= 1 ? 1 : 2);
}

/** A share between 0 and 1 as a percentage. */
export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? DASH : `${Math.round(share * 100)} %`;
}

/** A whole number with thin grouping: `49 152`. */
export function count(value: number): string {
  return value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** `1 token`, `2 tokens`. */
export function plural(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}
