/** A file that was taken from the folder: its task, its reports, and its end. */
import { lstat, readdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, join, parse } from "node:path";
import { removeTask, type Task, writeTask } from "./task.ts";

const DAY_MS = 86_400_000;

/** An export, its report and its plan are kept in `done` for so long, ms. */
const KEPT_MS = 30 * DAY_MS;

/** Only files that have a result are removed: others were not put there by crmsync. @param now ms */
export async function removeOld(dir: string, now: number): Promise<void> {
  const done = join(dir, "done");
  for (const name of await readdir(done)) {
    if (!name.endsWith(RESULT)) continue;
    const { mtimeMs } = await lstat(join(done, name));
    if (now - mtimeMs < KEPT_MS) continue;
    const base = join(done, name.slice(0, -RESULT.length));
    await rm(base, { force: true });
    // The result last: after a crash it still names the others.
    for (const part of PARTS) await rm(base + part, { force: true });
  }
}

/** What lies beside the file; in `taken` it has a hidden name. */
const REPORT = ".report.ndjson";
const PLAN = ".plan.ndjson";
const RESULT = ".result.json";
const PARTS = [REPORT, PLAN, RESULT] as const;

export const isPart = (name: string): boolean => PARTS.some((end) => name.endsWith(end));

export class TakenFile {
  readonly #dir: string;
  #task: Task;

  /** @param dir the drop folder */
  constructor(dir: string, task: Task) {
    this.#dir = dir;
    this.#task = task;
  }

  get task(): Task {
    return this.#task;
  }

  get path(): string {
    return this.#inTaken(this.#task.name);
  }

  get report(): string {
    return this.#inTaken(REPORT);
  }

  get plan(): string {
    return this.#inTaken(PLAN);
  }

  /**
   * Counts a run that begins, and removes what an earlier one has left. The report stays: a plan that goes on
   * was made with it, and a comparison writes it anew.
   */
  async begin(): Promise<void> {
    await this.note({ tries: this.#task.tries + 1 });
    for (const part of [PLAN, RESULT]) await rm(this.#inTaken(part), { force: true });
  }

  /** Changes what is known of the file; it survives a crash. */
  async note(changes: Partial<Task>): Promise<void> {
    this.#task = { ...this.#task, ...changes };
    await writeTask(this.#inTaken(""), this.#task);
  }

  /** The path that the file will have. No file there is overwritten. */
  async placeIn(folder: "done" | "failed"): Promise<string> {
    return join(this.#dir, folder, await freeName(join(this.#dir, folder), this.#task.name));
  }

  /** @param resultAt makes the result that a person reads, from the path that the file will have */
  async end(folder: "done" | "failed", resultAt: (place: string) => object): Promise<void> {
    const place = await this.placeIn(folder);
    const text = `${JSON.stringify(resultAt(place), undefined, 2)}\n`;
    await writeFile(this.#inTaken(RESULT), text, { mode: 0o600 });
    await this.note({ end: { folder, name: basename(place) } });
    await finishTask(this.#dir, this.#task);
  }

  #inTaken(name: string): string {
    return join(this.#dir, "taken", name);
  }
}

/** Moves a file whose run has ended; what was moved before a crash stays where it is. */
export async function finishTask(dir: string, { end, name }: Task): Promise<void> {
  if (end === undefined) return;
  const taken = join(dir, "taken");
  const target = join(dir, end.folder, end.name);
  for (const part of PARTS) await move(join(taken, part), target + part);
  await move(join(taken, name), target);
  await removeTask(taken);
}

/** @returns false when there is nothing at `from`: it may have been moved before. */
export async function move(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return false;
  }
}

/** The name itself, or with a number that makes it and the names of its reports free. */
async function freeName(folder: string, name: string): Promise<string> {
  const used = new Set(await readdir(folder));
  const { name: stem, ext } = parse(name);
  for (let number = 1; ; number += 1) {
    const free = number === 1 ? name : `${stem}-${number}${ext}`;
    if (![free, ...PARTS.map((part) => free + part)].some((one) => used.has(one))) return free;
  }
}
