import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Command } from "commander";
import { UserError } from "../../ops/user-error.ts";
import { writeWhole } from "../../ops/write-whole.ts";
import { exportRelations } from "../../sandbox/transfer.ts";
import { WrongUsage } from "../wrong-usage.ts";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox export` */
export function addExportCommand(sandbox: Command): void {
  const command = sandbox.command("export").argument("[file]", "the file to write", STDOUT);
  administer(sandbox, command, exportAll).description(
    "write all relations as NDJSON; - is standard output",
  );
}

const STDOUT = "-";

const exportAll: Work = async (session, [file = STDOUT]) => {
  if (file !== STDOUT && (await isSameFile(file, session.file))) {
    throw new WrongUsage(`${file} is the database: the export would overwrite it`);
  }
  const { administration, tenant, store } = session;
  const tenantId = administration.tenantId(tenant);
  const lines = exportRelations(store, tenantId);
  if (file === STDOUT) return pipeline(Readable.from(lines), process.stdout, { end: false });
  try {
    await writeWhole(file, lines);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new UserError(`the export to ${file} failed (${code}); an older file is as it was`);
  }
};

/** Whether both names lead to one existing file, perhaps by a link. */
async function isSameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map((file) => stat(file).catch(() => undefined)));
  return a !== undefined && a.ino === b?.ino && a.dev === b.dev;
}
