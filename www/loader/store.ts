/**
 * Downloads kept in the page's private file system (OPFS).
 *
 * A writer of that file system works on a copy that replaces the file when it is closed, so a half-written
 * download is never seen. Nothing here may fail a load: whatever goes wrong is one warning, and the bytes
 * go on to the engine.
 */

/** What tells one version of a file from another, as far as its server says. */
export interface Version {
  size: number | null;
  etag: string | null;
  modified: string | null;
}

/** A download of an earlier visit. */
export interface Kept {
  file: File;
  version: Version;
}

interface Entry extends Version {
  url: string;
  /** Bytes that were written. */
  bytes: number;
}

type Pieces = AsyncIterable<Uint8Array<ArrayBuffer>>;

const FOLDER = "decant";

/** The folder of this package. */
export class Store {
  readonly #folder: FileSystemDirectoryHandle;
  readonly #warn: (message: string) => void;

  private constructor(folder: FileSystemDirectoryHandle, warn: (message: string) => void) {
    this.#folder = folder;
    this.#warn = warn;
  }

  /** Opens the folder, or says why there is none. */
  static async open(warn: (message: string) => void): Promise<Store | undefined> {
    try {
      const root = await navigator.storage.getDirectory();
      return new Store(await root.getDirectoryHandle(FOLDER, { create: true }), warn);
    } catch (error) {
      warn(`downloads cannot be kept here (${reason(error)})`);
      return undefined;
    }
  }

  /** The kept download of `url`, if it is whole. */
  async find(url: string): Promise<Kept | undefined> {
    try {
      const { data, entry } = await names(url);
      const about = await (await this.#folder.getFileHandle(entry)).getFile();
      const version = JSON.parse(await about.text()) as Entry;
      const file = await (await this.#folder.getFileHandle(data)).getFile();
      return version.url === url && file.size === version.bytes ? { file, version } : undefined;
    } catch {
      // Not there, or not readable: both mean a download.
      return undefined;
    }
  }

  /** Passes `pieces` on, and keeps them once all have been used. */
  async *keep(url: string, version: Version, pieces: Pieces): Pieces {
    let writer = await this.#attempt(url, () => this.#create(url));
    let bytes = 0;
    let whole = false;
    try {
      for await (const piece of pieces) {
        if (writer !== undefined) {
          const current = writer;
          const written = await this.#attempt(url, async () => {
            await current.write(piece);
            return true;
          });
          if (written === undefined) {
            await discard(current);
            writer = undefined;
          }
        }
        bytes += piece.length;
        yield piece;
      }
      whole = version.size === null || version.size === bytes;
    } finally {
      if (writer !== undefined) {
        const current = writer;
        const kept = whole
          ? await this.#attempt(url, async () => {
              await current.close();
              await this.#describe(url, { ...version, url, bytes });
              return true;
            })
          : undefined;
        if (kept === undefined) {
          await discard(current);
          await this.#remove(url);
        }
      }
    }
  }

  async #create(url: string): Promise<FileSystemWritableFileStream> {
    // The description goes first: without it, whatever lies there is not taken for a download.
    await this.#remove(url);
    const { data } = await names(url);
    return (await this.#folder.getFileHandle(data, { create: true })).createWritable();
  }

  async #describe(url: string, entry: Entry): Promise<void> {
    const handle = await this.#folder.getFileHandle((await names(url)).entry, { create: true });
    const writer = await handle.createWritable();
    await writer.write(JSON.stringify(entry));
    await writer.close();
  }

  async #remove(url: string): Promise<void> {
    const { data, entry } = await names(url);
    for (const name of [entry, data]) {
      await this.#folder.removeEntry(name).catch(() => {});
    }
  }

  /** `work`'s answer, or undefined with a warning. */
  async #attempt<T>(url: string, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      await this.#remove(url).catch(() => {});
      this.#warn(`the download is not kept for the next visit (${reason(error)})`);
      return undefined;
    }
  }
}

/** Whether two versions can be the same: nothing that both say differs. */
export function sameVersion(a: Version, b: Version): boolean {
  return (["size", "etag", "modified"] as const).every(
    (key) => a[key] === null || b[key] === null || a[key] === b[key],
  );
}

async function names(url: string): Promise<{ data: string; entry: string }> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url));
  const name = Array.from(new Uint8Array(digest), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  return { data: `${name}.gguf`, entry: `${name}.json` };
}

async function discard(writer: FileSystemWritableFileStream): Promise<void> {
  // Fails when the writer is already broken, which is as good.
  await writer.abort().catch(() => {});
}

function reason(error: unknown): string {
  return error instanceof Error || error instanceof DOMException
    ? `${error.name}: ${error.message}`
    : String(error);
}
