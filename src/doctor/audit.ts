/** Checks the file of the audit trail as this machine has it. */
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { fileProblem } from "../audit/file-sink.ts";
import { LineHashes } from "../audit/line.ts";
import type { Config } from "../config.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { littleRoom } from "./disk.ts";

const NAME = "audit trail";
const REMEDY = "See docs/runbook.md#crmsyncauditfailed.";

export async function checkAuditFile({ AUDIT_LOG: path, auditKeys }: Config): Promise<Check> {
  if (path === undefined) return ok(NAME, "none: AUDIT_LOG is not set here");
  if (path === "stdout") return ok(NAME, "on stdout of each process with the role sync");
  try {
    const problem = await fileProblem(path, new LineHashes(auditKeys));
    if (problem !== undefined) return fail(NAME, `${path}: ${problem}`, REMEDY);
    const at = await stat(path).catch(() => undefined);
    if (at !== undefined && !at.isFile()) {
      const says = `${path} is no file but a device: whether it takes lines is not checked`;
      return warn(NAME, says, "Name a file, or stdout.");
    }
    const says = await littleRoom(dirname(path));
    if (says === undefined) return ok(NAME, `${path} can be written`);
    return warn(NAME, `${path}: ${says}`, "Free space: on a full disk nothing is sent.");
  } catch (error) {
    return fail(NAME, `${path} cannot be written: ${(error as Error).message}`, REMEDY);
  }
}
