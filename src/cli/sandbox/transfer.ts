/** `crmsync sandbox export` and `crmsync sandbox import`. */
import { stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { printable } from "../../ops/printable.ts";
import { UserError } from "../../ops/user-error.ts";
import { writeWhole } from "../../ops/write-whole.ts";
import type { Administration, TenantName } from "../../sandbox/administration.ts";
import type { RelationStore } from "../../sandbox/relation-store.ts";
import { exportRelations, importRelations } from "../../sandbox/transfer.ts";
import { linesOf, openTextFile } from "../text-lines.ts";
import { WrongUsage } from "../wrong-usage.ts";

/** What a command on the database file works with. */
export interface Session {
  readonly administration: Administration;
  /** The database file. */
  readonly file: string;
  /** The client that the command is about. */
  readonly tenant: TenantName;
  readonly store: RelationStore;
}

/** What is printed: with --json the value, otherwise the lines. */
export type Result = readonly [value: unknown, lines: readonly string[]];

const STDOUT = "-";

export async function exportAll(session: Session, [file = STDOUT]: string[]): Promise<void> {
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
}

/** Whether both names lead to one existing file, perhaps by a link. */
async function isSameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map((file) => stat(file).catch(() => undefined)));
  return a !== undefined && a.ino === b?.ino && a.dev === b.dev;
}

export async function importAll(
  { administration, tenant, store }: Session,
  [file = STDOUT]: string[],
): Promise<Result> {
  const tenantId = administration.tenantId(tenant);
  const lines = linesOf(await openTextFile(file));
  const result = await importRelations(store, tenantId, lines, administration.values(tenant));
  for (const { line, problems } of result.invalid) {
    console.error(printable(`line ${line}: ${problems.join("; ")}`));
  }
  const { created, updated, invalid } = result;
  if (invalid.length > 0) process.exitCode = 1;
  return [result, [`${created} created, ${updated} updated, ${invalid.length} invalid`]];
}
