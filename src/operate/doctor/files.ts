/** Checks the files that crmsync itself writes to, and their disks. */
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { fileProblem } from "../../people/audit/file-sink.ts";
import { LineHashes } from "../../people/audit/line.ts";
import type { Config } from "../../base/config.ts";
import { mibLeft } from "../../base/data-dir.ts";
import { fail, ok, warn, type Check } from "./check.ts";

const AUDIT_TRAIL = "audit trail";
const REMEDY = "See docs/runbook.md#crmsyncauditfailed.";

export async function checkAuditFile({ AUDIT_LOG: path, auditKeys }: Config): Promise<Check> {
  if (path === undefined) return ok(AUDIT_TRAIL, "none: AUDIT_LOG is not set here");
  if (path === "stdout") return ok(AUDIT_TRAIL, "on stdout of each process with the role sync");
  try {
    const problem = await fileProblem(path, new LineHashes(auditKeys));
    if (problem !== undefined) return fail(AUDIT_TRAIL, `${path}: ${problem}`, REMEDY);
    const at = await stat(path).catch(() => undefined);
    if (at !== undefined && !at.isFile()) {
      const says = `${path} is no file but a device: whether it takes lines is not checked`;
      return warn(AUDIT_TRAIL, says, "Name a file, or stdout.");
    }
    const says = await littleRoom(dirname(path));
    if (says === undefined) return ok(AUDIT_TRAIL, `${path} can be written`);
    return warn(AUDIT_TRAIL, `${path}: ${says}`, "Free space: on a full disk nothing is sent.");
  } catch (error) {
    return fail(AUDIT_TRAIL, `${path} cannot be written: ${(error as Error).message}`, REMEDY);
  }
}

/** With less free space than this a file cannot grow for long: time to act before the disk is full, MiB. */
const WARN_MIB = 64;

/** Undefined: the disk of this folder has room, or there is no such folder. */
async function littleRoom(dir: string): Promise<string | undefined> {
  const left = (await mibLeft(dir)) ?? Infinity;
  return left < WARN_MIB ? `its disk has ${Math.round(left)} MiB left` : undefined;
}

/** A line only where the embedded Redis keeps its data. */
export async function checkDataDir({ DATA_DIR: dir, REDIS_URL }: Config): Promise<Check[]> {
  if (REDIS_URL !== undefined) return [];
  const name = "data folder";
  if ((await mibLeft(dir)) === undefined) return []; // the line about Redis says more
  const says = await littleRoom(dir);
  if (says === undefined) return [ok(name, `${dir} has room on its disk`)];
  const remedy =
    "Free space: on a full disk the embedded Redis ends, and the daemon with it. No event is accepted, and nothing is sent.";
  return [warn(name, `${dir}: ${says}`, remedy)];
}
