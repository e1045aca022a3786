/** What daemons have written to their audit trails. */
import { readFile } from "node:fs/promises";
import type { SandboxAccess } from "./crmsync.ts";
import { localCrmsync } from "./local-command.ts";

export interface AuditLine {
  readonly act: string;
  readonly outcome?: string;
  readonly crmCode?: string;
  readonly fieldsSent?: readonly string[];
  readonly fieldsChanged?: readonly string[];
  readonly fieldsEmptied?: readonly string[];
  readonly event?: { readonly id: string; readonly source: string };
  readonly by: string;
  readonly secret?: string;
  /** Of `outcome.told`. */
  readonly fields?: readonly string[];
  readonly subject?: string;
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** The complete lines of the files that exist. */
export async function auditLinesIn(...files: readonly string[]): Promise<AuditLine[]> {
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")));
  const lines = texts
    .join("")
    .split("\n")
    .filter((line) => line.endsWith("}"));
  return lines.map((line) => JSON.parse(line) as AuditLine);
}

export const changesIn = async (...files: readonly string[]): Promise<AuditLine[]> =>
  (await auditLinesIn(...files)).filter(({ act }) => act === "change");

/** How often the service has created or updated a relation. */
export async function writesOf(sandbox: SandboxAccess): Promise<number> {
  const requests = Object.entries(await sandbox.requests());
  const done = requests.filter(([name]) => /^(create|update)\w* 20/i.test(name));
  return done.reduce((sum, [, count]) => sum + count, 0);
}

export async function runCommand(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ code: number | null; out: string }> {
  await using command = localCrmsync(args, { env });
  const { code } = await command.ended;
  return { code, out: [...command.stdout, ...command.stderr].join("\n") };
}
