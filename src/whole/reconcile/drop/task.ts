/** What is known of the file that was taken; it lies beside it, so that a crash does not lose it. */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { readingSchema } from "../../../intake/snapshot/item.ts";
import { ENCODINGS } from "../../../intake/snapshot/scan-file.ts";

/** Hidden, so that it is never taken for a snapshot. */
const FILE = ".task.json";

const taskSchema = z.object({
  /** The file's name. */
  name: z.string(),
  /** What its marker said. */
  asOf: z.number().optional(),
  object: z.string().optional(),
  idFrom: z.string().optional(),
  encoding: z.enum(ENCODINGS).optional(),
  accept: z.array(z.string()).readonly().optional(),
  ...readingSchema.shape,
  /** Why its marker cannot be used. */
  problem: z.string().optional(),
  /** Runs that were begun and gave no answer. */
  tries: z.number(),
  /** When a run first failed for a reason that may pass, ms. */
  failingSince: z.number().optional(),
  /** Where it is moved to; set once its run has ended. */
  end: z.object({ folder: z.enum(["done", "failed"]), name: z.string() }).optional(),
});

export type Task = z.output<typeof taskSchema>;

/** Undefined when there is none, or not a whole one. */
export async function readTask(dir: string): Promise<Task | undefined> {
  try {
    const parsed = taskSchema.safeParse(JSON.parse(await readFile(join(dir, FILE), "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export async function writeTask(dir: string, task: Task): Promise<void> {
  const part = join(dir, `${FILE}.part`);
  // The sender may have made a link of this name: it would lead to any file of the daemon.
  await rm(part, { force: true });
  await writeFile(part, `${JSON.stringify(task)}\n`, { mode: 0o600, flag: "wx" });
  await rename(part, join(dir, FILE));
}

export const removeTask = (dir: string): Promise<void> => rm(join(dir, FILE), { force: true });
