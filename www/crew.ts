/**
 * Threads that meet in shared memory: each gives words to the others and waits for all, round by round.
 *
 * A round must cost microseconds, a hundred of them make a token. So who waits looks again and again for a while
 * and only then sleeps; what is given lies at one of two places by turns, so that a round needs no second meeting
 * before its place is used again.
 */

import { DecantError } from "./errors.js";

/** The most words that a thread can give in a round. */
const CAPACITY = 1 << 18;

/** Words of the state: the round's number, how many have arrived, how many sleep, whether one is gone. */
const ROUND = 0;
const ARRIVED = 1;
const ASLEEP = 2;
const GONE = 3;
/** Where places for what is given begin. */
const PLACES = 16;

/** Looks before sleeping: some 50 µs, longer than threads with equal shares differ. */
const LOOKS = 20_000;
/** A thread that is not heard of for so many seconds is gone. Seconds in which a computer sleeps count as one. */
const PATIENCE = 10;

const NOTHING = new Uint32Array();

/** A page's own thread may not sleep. */
const sleeps = typeof document === "undefined";

/** A thread's line to the others; what the engine knows as `Crew` (`src/web/crew.rs`). */
export class Crew {
  readonly capacity = CAPACITY;
  readonly index: number;
  readonly count: number;
  readonly #state: Int32Array;
  readonly #words: Uint32Array;

  /** Bytes of the memory in which `count` threads meet. */
  static bytes(count: number): number {
    return 4 * (PLACES + 2 * count * (CAPACITY + 1));
  }

  constructor(memory: ArrayBufferLike, index: number, count: number) {
    this.index = index;
    this.count = count;
    this.#state = new Int32Array(memory, 0, PLACES);
    this.#words = new Uint32Array(memory);
  }

  /** Gives `own`, and takes `lens[i]` words of what thread `i` gives, one thread after another. */
  exchange(own: Uint32Array, lens: Uint32Array, others: Uint32Array): void {
    const round = this.#meet(own, PATIENCE);
    let at = 0;
    for (let index = 0; index < this.count; index++) {
      const length = lens[index]!;
      if (length === 0) continue;
      const from = this.#place(index, round) + 1;
      others.set(this.#words.subarray(from, from + length), at);
      at += length;
    }
  }

  /** Gives `words` to those who {@link receive}. */
  post(words: Uint32Array): void {
    this.#meet(words, PATIENCE);
  }

  /** Waits, as long as it takes, for what the first thread posts. */
  receive(): Uint32Array {
    const place = this.#place(0, this.#meet(NOTHING, Infinity));
    return this.#words.slice(place + 1, place + 1 + this.#words[place]!);
  }

  /** Tells all that a thread is gone: whoever waits for it fails. */
  leave(): void {
    Atomics.store(this.#state, GONE, 1);
    Atomics.notify(this.#state, ROUND);
  }

  #place(index: number, round: number): number {
    return PLACES + ((round & 1) * this.count + index) * (CAPACITY + 1);
  }

  /** Gives `own` and waits for all; answers the round's number. */
  #meet(own: Uint32Array, patience: number): number {
    const state = this.#state;
    // Who left a round has been counted in it: nothing can follow.
    if (Atomics.load(state, GONE) !== 0) throw gone();
    const round = Atomics.load(state, ROUND);
    const place = this.#place(this.index, round);
    this.#words[place] = own.length;
    this.#words.set(own, place + 1);
    if (Atomics.add(state, ARRIVED, 1) + 1 === this.count) {
      Atomics.store(state, ARRIVED, 0);
      Atomics.store(state, ROUND, (round + 1) | 0);
      if (Atomics.load(state, ASLEEP) > 0) Atomics.notify(state, ROUND);
    } else {
      this.#wait(round, patience);
    }
    return round;
  }

  #wait(round: number, patience: number): void {
    const state = this.#state;
    if (this.#look(round)) return;
    Atomics.add(state, ASLEEP, 1);
    try {
      for (let left = patience; left > 0; left--) {
        if (Atomics.load(state, GONE) !== 0) break;
        if (sleeps) Atomics.wait(state, ROUND, round, 1000);
        else
          for (const end = performance.now() + 1000; performance.now() < end;)
            if (this.#look(round) || Atomics.load(state, GONE) !== 0) break;
        if (Atomics.load(state, ROUND) !== round) return;
      }
    } finally {
      Atomics.sub(state, ASLEEP, 1);
    }
    this.leave();
    throw gone();
  }

  /** Whether the round is over, or is so in a moment. */
  #look(round: number): boolean {
    const state = this.#state;
    for (let i = 0; i < LOOKS; i++) if (Atomics.load(state, ROUND) !== round) return true;
    return false;
  }
}

function gone(): DecantError {
  return new DecantError("device_lost", "a thread of the engine is gone; load the model again");
}
