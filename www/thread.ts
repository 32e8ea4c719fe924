/** A further thread's script: an instance of the engine that does what the first one does. */

import { Crew } from "./crew.js";
import { bindings } from "./engine.js";
import type { ThreadAnswer, ThreadStart } from "./threads.js";

addEventListener("message", ({ data }: MessageEvent<ThreadStart>) => void follow(data), {
  once: true,
});
addEventListener("messageerror", () => {
  postMessage({ ready: false, message: "its orders cannot be read" } satisfies ThreadAnswer);
});

async function follow({ module, memory, index, count }: ThreadStart): Promise<void> {
  const crew = new Crew(memory, index, count);
  const tell = (answer: ThreadAnswer) => postMessage(answer);
  try {
    const engine = (await bindings()).bindings;
    await engine.default({ module_or_path: module });
    tell({ ready: true });
    // From here on this thread hears no messages; the last one is on its way before that.
    await new Promise((resolve) => setTimeout(resolve));
    engine.follow(crew);
  } catch (error) {
    crew.leave();
    tell({ ready: false, message: error instanceof Error ? error.message : String(error) });
  }
  close();
}
