/**
 * A caller's own `fetch`, used from the engine's thread.
 *
 * Functions cannot be sent to a worker, so the page keeps it and answers requests over a port. A body
 * crosses piece by piece as it is read, so that neither side ever holds more than one.
 */

import { fromWire, toWire, type WireError } from "../errors.js";

interface Request {
  url: string;
  method: string;
  /** Where the answer goes. */
  port: MessagePort;
}

type Answer =
  | { type: "head"; status: number; statusText: string; headers: [string, string][] }
  | { type: "piece"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "done" }
  | { type: "failed"; error: WireError };

type Question = { type: "pull" } | { type: "cancel" };

/** Statuses that cannot have a body. */
const EMPTY = [101, 204, 205, 304];

/** Offers `fetch`; the port goes to the engine's thread. */
export function serveFetch(fetch: typeof globalThis.fetch): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = ({ data }: MessageEvent<Request>) => void answer(fetch, data);
  return port2;
}

/** A `fetch` that asks the one behind `port`; it knows method and signal. */
export function portFetch(port: MessagePort): typeof globalThis.fetch {
  return (input, init) =>
    new Promise((resolve, reject) => {
      const { port1, port2 } = new MessageChannel();
      const url = input instanceof Request ? input.url : String(input);
      let body: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
      const ask = (question: Question) => port1.postMessage(question);
      const fail = (error: unknown) => {
        reject(error);
        body?.error(error);
        port1.close();
      };
      const signal = init?.signal;
      signal?.addEventListener(
        "abort",
        () => {
          ask({ type: "cancel" });
          fail(signal.reason);
        },
        { once: true },
      );
      port1.onmessage = ({ data }: MessageEvent<Answer>) => {
        switch (data.type) {
          case "head": {
            const stream = new ReadableStream<Uint8Array<ArrayBuffer>>(
              {
                start: (controller) => void (body = controller),
                pull: () => ask({ type: "pull" }),
                cancel: () => ask({ type: "cancel" }),
              },
              { highWaterMark: 0 },
            );
            const { status, statusText, headers } = data;
            return resolve(
              new Response(EMPTY.includes(status) ? null : stream, { status, statusText, headers }),
            );
          }
          case "piece":
            return body?.enqueue(data.bytes);
          case "done":
            body?.close();
            return port1.close();
          case "failed":
            // An error that is not ours is what fetch throws when a request fails.
            return fail(
              data.error.code === null ? new TypeError(data.error.message) : fromWire(data.error),
            );
        }
      };
      const request: Request = { url, method: init?.method ?? "GET", port: port2 };
      port.postMessage(request, [port2]);
    });
}

async function answer(
  fetch: typeof globalThis.fetch,
  { url, method, port }: Request,
): Promise<void> {
  const say = (message: Answer, transfer: Transferable[] = []) =>
    port.postMessage(message, transfer);
  const cancelled = new AbortController();
  let reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>> | undefined;
  port.onmessage = async ({ data }: MessageEvent<Question>) => {
    try {
      if (data.type === "cancel") {
        cancelled.abort();
        port.close();
        return;
      }
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) return say({ type: "done" });
      // A copy: the caller's stream may hand out views of a buffer that it goes on using.
      const bytes = value.slice();
      say({ type: "piece", bytes }, [bytes.buffer]);
    } catch (error) {
      say({ type: "failed", error: toWire(error) });
    }
  };
  try {
    const response = await fetch(url, { method, signal: cancelled.signal });
    reader = response.body?.getReader();
    const { status, statusText, headers } = response;
    say({ type: "head", status, statusText, headers: [...headers] });
  } catch (error) {
    say({ type: "failed", error: toWire(error) });
  }
}
