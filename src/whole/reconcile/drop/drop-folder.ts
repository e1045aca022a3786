/**
 * The folder into which exports are dropped. One file at a time is moved to `taken`, so that its sender
 * cannot change it any more, and at the end of its run to `done` or `failed` (taken-file.ts).
 */
import { access, constants, lstat, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { UserError } from "../../../base/user-error.ts";
import { isMarker, isOutdated, markersOf, parseMarker } from "./marker.ts";
import { QuietWatch, type Traits } from "./quiet-watch.ts";
import { finishTask, isPart, move, TakenFile } from "./taken-file.ts";
import { readTask, writeTask, type Task } from "./task.ts";

/** Names of files that are not meant, or that their programs still write. */
const LEFT_ALONE = /^\.|^~\$|~$|\.(?:part|partial|tmp|temp|filepart|crdownload|download|swp)$/i;

/** Only this beginning of a marker is used. */
const MARKER_CHARACTERS = 4096;

/** What was seen of the folder. */
export interface Look {
  /** The file to take next, or to go on with. */
  readonly ready: string | undefined;
  /** Files that were not compared yet, complete or not. */
  readonly waiting: number;
  /** Files in `failed`: each waits for a person. */
  readonly failed: number;
}

export class DropFolder {
  readonly dir: string;
  readonly #taken: string;
  readonly #quiet: QuietWatch;

  /** @param quietMs how long a file without a marker must stay as it is */
  constructor(dir: string, quietMs: number) {
    this.dir = dir;
    this.#taken = join(dir, "taken");
    this.#quiet = new QuietWatch(quietMs);
  }

  /**
   * @param now of a monotonic clock, ms
   * @throws an error of node:fs when the folder cannot be used
   */
  async look(now: number): Promise<Look> {
    await this.#prepare();
    const files = await this.#files();
    const quiet = this.#quiet.note(files, now);
    const complete: string[] = [];
    // The oldest first: an older export must not come after a newer one.
    for (const [name, traits] of [...files].toSorted(([, a], [, b]) => a.mtimeMs - b.mtimeMs)) {
      if (quiet.has(name) || (await this.#markerOf(name, traits)) !== undefined)
        complete.push(name);
    }
    const present = await this.#present();
    return {
      ready: present ?? complete[0],
      waiting: files.size + (present === undefined ? 0 : 1),
      failed: (await readdir(join(this.dir, "failed"))).filter(
        (name) => !name.startsWith(".") && !isPart(name),
      ).length,
    };
  }

  /**
   * Takes a file, or goes on with the one that was taken before. One process at a time may call it.
   * @returns undefined when there is nothing left to do with it
   * @throws an error of node:fs
   */
  async take(name: string): Promise<TakenFile | undefined> {
    await this.#prepare();
    const present = await this.#present();
    if (present !== undefined) {
      const known = await readTask(this.#taken);
      const task = known?.name === present ? known : { name: present, tries: 0 };
      if (task.end === undefined) return new TakenFile(this.dir, task);
      await finishTask(this.dir, task);
      return undefined;
    }
    const task = await this.#taskFor(name);
    await writeTask(this.#taken, task);
    if (!(await move(join(this.dir, name), join(this.#taken, name)))) return undefined;
    for (const marker of markersOf(name)) await rm(join(this.dir, marker), { force: true });
    return new TakenFile(this.dir, task);
  }

  async #taskFor(name: string): Promise<Task> {
    const task = { name, tries: 0 };
    const traits = await traitsOf(join(this.dir, name));
    const timely = traits && (await this.#markerOf(name, traits));
    const marker = timely ?? (await this.#markerOf(name));
    if (marker === undefined) return task;
    const text = await readFile(join(this.dir, marker), "utf8");
    try {
      const options = parseMarker(marker, text.slice(0, MARKER_CHARACTERS));
      if (timely === undefined && Object.keys(options).length > 0) {
        throw new UserError(
          `${marker} was written before ${name} was, and may say of another file how it is read: write it after the file`,
        );
      }
      return { ...task, ...options };
    } catch (error) {
      if (error instanceof UserError) return { ...task, problem: error.message };
      throw error;
    }
  }

  /** @param file a marker that is older than its last change was too early, and does not count */
  async #markerOf(name: string, file?: Traits): Promise<string | undefined> {
    for (const marker of markersOf(name)) {
      const traits = await traitsOf(join(this.dir, marker));
      if (traits !== undefined && !(file && isOutdated(traits, file))) return marker;
    }
    return undefined;
  }

  async #files(): Promise<Map<string, Traits>> {
    const files = new Map<string, Traits>();
    for (const name of await readdir(this.dir)) {
      if (LEFT_ALONE.test(name) || isMarker(name)) continue;
      const traits = await traitsOf(join(this.dir, name));
      if (traits !== undefined) files.set(name, traits);
    }
    return files;
  }

  /** The file that was taken and is not moved to its end yet. */
  async #present(): Promise<string | undefined> {
    const names = (await readdir(this.#taken)).filter((name) => !name.startsWith("."));
    return names.toSorted()[0];
  }

  async #prepare(): Promise<void> {
    const usable = constants.R_OK | constants.W_OK | constants.X_OK;
    await access(this.dir, usable);
    const { dev } = await lstat(this.dir);
    for (const folder of [this.#taken, join(this.dir, "done"), join(this.dir, "failed")]) {
      await mkdir(folder, { recursive: true });
      await access(folder, usable);
      const own = await lstat(folder);
      // The sender may have made it: a link would let files be moved from and to any folder of the daemon.
      if (!own.isDirectory()) {
        throw Object.assign(new Error(`${folder} is a link`), { code: "ENOTDIR" });
      }
      if (own.dev === dev) continue;
      throw Object.assign(new Error(`${folder} is on another device`), { code: "EXDEV" });
    }
  }
}

/** Undefined when there is no file of its own: folders, links and devices are left alone. */
async function traitsOf(path: string): Promise<Traits | undefined> {
  try {
    const stat = await lstat(path);
    return stat.isFile() ? stat : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
