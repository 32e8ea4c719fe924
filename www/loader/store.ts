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

const FOLDER = "decant";

type Warn = (message: string) => void;

/** The folder of this package. */
export class Store {
  readonly #folder: FileSystemDirectoryHandle;
  readonly #warn: Warn;

  private constructor(folder: FileSystemDirectoryHandle, warn: Warn) {
    this.#folder = folder;
    this.#warn = warn;
  }

  /** Opens the folder, or says why there is none. */
  static async open(warn: Warn): Promise<Store | undefined> {
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

  /** Begins to keep the download of `url`. */
  async begin(url: string, version: Version): Promise<Keeper> {
    const keeper = new Keeper(
      this.#folder,
      await names(url),
      { ...version, url, bytes: 0 },
      this.#warn,
    );
    await keeper.open();
    return keeper;
  }
}

/** A download that is being kept. After the first failure, which is one warning, it does nothing. */
export class Keeper {
  readonly #folder: FileSystemDirectoryHandle;
  readonly #names: Names;
  readonly #entry: Entry;
  readonly #warn: Warn;
  #writer: FileSystemWritableFileStream | undefined;

  constructor(folder: FileSystemDirectoryHandle, names: Names, entry: Entry, warn: Warn) {
    this.#folder = folder;
    this.#names = names;
    this.#entry = entry;
    this.#warn = warn;
  }

  async open(): Promise<void> {
    // The description goes first: without it, whatever lies there is not taken for a download.
    await this.#remove();
    await this.#attempt(async () => {
      const handle = await this.#folder.getFileHandle(this.#names.data, { create: true });
      this.#writer = await handle.createWritable();
    });
  }

  /** Writes the next piece. */
  async write(piece: Uint8Array<ArrayBuffer>): Promise<void> {
    const writer = this.#writer;
    if (writer === undefined) return;
    await this.#attempt(() => writer.write(piece));
    this.#entry.bytes += piece.length;
  }

  /** The download is whole and good: it is there for the next visit. */
  async commit(): Promise<void> {
    const writer = this.#writer;
    if (writer === undefined) return;
    await this.#attempt(async () => {
      await writer.close();
      const handle = await this.#folder.getFileHandle(this.#names.entry, { create: true });
      this.#writer = await handle.createWritable();
      await this.#writer.write(JSON.stringify(this.#entry));
      await this.#writer.close();
    });
    this.#writer = undefined;
  }

  /** The download came to nothing: no trace is left of it. */
  async discard(): Promise<void> {
    if (this.#writer !== undefined) await this.#drop();
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      await this.#drop();
      this.#warn(`the download is not kept for the next visit (${reason(error)})`);
    }
  }

  async #drop(): Promise<void> {
    const writer = this.#writer;
    this.#writer = undefined;
    // Fails when the writer is already broken or closed, which is as good.
    await writer?.abort().catch(() => {});
    await this.#remove();
  }

  async #remove(): Promise<void> {
    for (const name of [this.#names.entry, this.#names.data]) await remove(this.#folder, name);
  }
}

/** Removes a file that may not be there. A writer that was aborted can hold its lock for a moment longer. */
async function remove(folder: FileSystemDirectoryHandle, name: string): Promise<void> {
  for (let tries = 0; tries < 50; tries += 1) {
    try {
      return await folder.removeEntry(name);
    } catch (error) {
      const locked = error instanceof DOMException && error.name === "NoModificationAllowedError";
      if (!locked) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Whether two versions can be the same: nothing that both say differs. */
export function sameVersion(a: Version, b: Version): boolean {
  return (["size", "etag", "modified"] as const).every(
    (key) => a[key] === null || b[key] === null || a[key] === b[key],
  );
}

interface Names {
  data: string;
  entry: string;
}

async function names(url: string): Promise<Names> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url));
  const hex = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0"));
  return { data: `${hex.join("")}.bin`, entry: `${hex.join("")}.json` };
}

function reason(error: unknown): string {
  return error instanceof Error || error instanceof DOMException
    ? `${error.name}: ${error.message}`
    : String(error);
}
