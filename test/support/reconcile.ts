/** What the tests of `crmsync reconcile` share. */
import { join } from "node:path";
import { expect } from "vitest";
import { localSandbox, type LocalSandbox } from "./in-process.ts";
import { localCrmsync } from "./local-command.ts";
import type { TempDir } from "./temp-dir.ts";

export type Fields = Readonly<Record<string, unknown>>;

export const person = (n: number, fields: Fields = {}) => ({
  type: "Person",
  crmCode: `p${n}`,
  firstName: "Ada",
  lastName: `Muster ${n}`,
  ...fields,
});

export const lines = (records: readonly unknown[]) =>
  records.map((record) => `${JSON.stringify(record)}\n`).join("");

export const total = (requests: Readonly<Record<string, number>>) =>
  Object.values(requests).reduce((sum, n) => sum + n, 0);

/** A sandbox that holds these relations. */
export async function sandboxWith(
  dir: TempDir,
  relations: readonly unknown[],
): Promise<LocalSandbox> {
  const db = join(dir.path, "sandbox.sqlite");
  const sandbox = await localSandbox({ db });
  await plant(dir, relations);
  return sandbox;
}

/** Changes the service behind crmsync's back. */
export async function plant(dir: TempDir, relations: readonly unknown[]): Promise<void> {
  const db = join(dir.path, "sandbox.sqlite");
  const input = lines(relations);
  await using imported = localCrmsync(["sandbox", "import", "-", "--db", db], { input });
  expect((await imported.ended).code, imported.stderr.join("\n")).toBe(0);
}

export async function reconcile(
  env: Readonly<Record<string, string>>,
  args: readonly string[],
): Promise<{ code: number | null; out: string; err: string }> {
  await using command = localCrmsync(["reconcile", ...args], { env: { ...env } });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

/** The numbers from one up to another. */
export const codes = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, n) => from + n);
