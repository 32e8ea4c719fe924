/** Starting a worker from wherever the package is. */

/**
 * Starts a worker: `direct` does it in words that bundlers understand, from the script at `url`, which cannot be where
 * the package is of another origin.
 */
export function startWorker(direct: () => Worker, url: URL): Worker {
  try {
    return direct();
  } catch (error) {
    // A worker's script must be of the page's own origin, but it may import from where the package is.
    if (!(error instanceof DOMException) || error.name !== "SecurityError") throw error;
    const script = `import ${JSON.stringify(url.href)};`;
    const blob = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const worker = new Worker(blob, { type: "module" });
    // The script is fetched later than this, but not later than its first message or error.
    const done = () => URL.revokeObjectURL(blob);
    worker.addEventListener("message", done, { once: true });
    worker.addEventListener("error", done, { once: true });
    return worker;
  }
}
