/** Which files of a folder have not changed for a while, by the process's own monotonic clock. Pure. */

/** All that tells a change of a file; its times are only compared with themselves. */
export interface Traits {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly ino: number;
}

/** An empty file waits so many times longer: its sender may have opened it and still work out the rest. */
const EMPTY_FACTOR = 60;

export class QuietWatch {
  readonly #quietMs: number;
  #seen = new Map<string, { readonly traits: string; readonly since: number }>();

  /** @param quietMs how long a file must stay as it is */
  constructor(quietMs: number) {
    this.#quietMs = quietMs;
  }

  /**
   * Takes note of the files as they are now; those that are gone are forgotten.
   * @param now of a monotonic clock, ms
   * @returns the names of the files that were seen unchanged for long enough
   */
  note(files: ReadonlyMap<string, Traits>, now: number): Set<string> {
    const seen = new Map<string, { traits: string; since: number }>();
    const quiet = new Set<string>();
    for (const [name, { ctimeMs, ino, mtimeMs, size }] of files) {
      const traits = [size, mtimeMs, ctimeMs, ino].join();
      const before = this.#seen.get(name);
      const since = before?.traits === traits ? before.since : now;
      seen.set(name, { traits, since });
      const neededMs = size === 0 ? this.#quietMs * EMPTY_FACTOR : this.#quietMs;
      if (now - since >= neededMs) quiet.add(name);
    }
    this.#seen = seen;
    return quiet;
  }
}
