/** Removes from `done` what is not needed any more; what lies in `failed` waits for a person. */
import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { PARTS, RESULT } from "./taken-file.ts";

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
