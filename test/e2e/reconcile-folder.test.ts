/** RECONCILE_DIR: exports are dropped as an SFTP server does it, and compared in processes of their own. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { PROGRAM } from "../../src/base/command.ts";
import { csv, dropFolder } from "../support/drop-folder.ts";
import { localDaemon } from "../support/in-process.ts";
import { codes, lines, person, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir, type TempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";

afterEach(() => void vi.unstubAllEnvs());

/** A process that compares reads its settings from the environment of the daemon. */
const startDaemon = (env: Readonly<Record<string, string>>) => {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  return localDaemon(env);
};

/** Exports that appear in the folder are carried out. */
const applyingEnv = (
  sandbox: Parameters<typeof envFor>[0],
  dir: TempDir,
  folder: { readonly path: string },
) => envFor(sandbox, { DATA_DIR: dir.path, RECONCILE_DIR: folder.path, RECONCILE_APPLY: "1" });

test("an export is carried out once by two daemons, and a truncated one is kept with its reason", async () => {
  await using dir = await tempDir();
  const all = codes(0, 60);
  await using sandbox = await sandboxWith(
    dir,
    all.slice(10).map((n) => person(n, { city: n < 15 ? "Trier" : "Köln" })),
  );
  const folder = await dropFolder(dir);
  const env = applyingEnv(sandbox, dir, folder);
  await using one = await startDaemon(env);
  await using other = await startDaemon(env);
  await folder.drop("crm 2.csv", csv(all, "Köln"));
  const done = await folder.result("done/crm 2.csv");
  expect(done).toMatchObject({
    result: "success",
    planned: 15,
    applied: { sent: 15 },
    found: { records: 60, counts: { equal: 45, missing: 10, different: 5 } },
  });
  const relations = await sandbox.relations();
  expect(relations.size).toBe(60);
  expect([...relations.values()].filter((relation) => relation["city"] !== "Köln")).toEqual([]);
  const report = await readFile(join(folder.path, "done/crm 2.csv.report.ndjson"), "utf8");
  expect(report.trim().split("\n")).toHaveLength(15);
  expect(report).not.toMatch(/Trier|Köln|Ada/);
  expect((await folder.namesIn("done")).toSorted()).toEqual([
    "crm 2.csv",
    "crm 2.csv.report.ndjson",
    "crm 2.csv.result.json",
  ]);
  expect(await sandbox.requests()).toMatchObject({ "create 201": 10, "update 200": 5 });

  const whole = csv(all, "Bonn");
  await folder.drop("crm 3.csv", whole.slice(0, -12));
  expect(await folder.result("failed/crm 3.csv")).toMatchObject({
    result: "failed",
    error: expect.stringContaining("crm 3.csv") as string,
  });
  // An older export of the same kind that comes late, and one that would terminate half of all.
  const late = new Date(Date.now() - 86_400_000).toISOString();
  await folder.drop("crm 1.csv", csv(all, "Rom"), `as-of: ${late}\n`);
  expect(await folder.result("failed/crm 1.csv")).toMatchObject({
    result: "failed",
    error: expect.stringContaining("could undo newer changes") as string,
  });
  await folder.drop(
    "ended.csv",
    csv(all, "Köln", (n) => (n < 30 ? "terminated" : "active")),
  );
  expect(await folder.result("failed/ended.csv")).toMatchObject({
    result: "stopped",
    why: "terminations",
    remedy: expect.stringMatching(/failed\/ended\.csv --apply --max-terminate 30$/) as string,
  });
  const says = async () => (await one.status()).findings.map((finding) => finding.says);
  await expect
    .poll(says)
    .toEqual([
      expect.stringMatching(/^3 exports in RECONCILE_DIR\/failed /),
      expect.stringMatching(/^30 relations differ from the CRM, /),
    ]);
  const { reconciliation } = await one.status();
  expect(reconciliation).toMatchObject({
    lastRuns: { folder: { result: "stopped" } },
    folder: { waiting: 0, failed: 3 },
  });
  expect(await other.metric("crmsync_reconcile_folder_files", { state: "failed" })).toBe(3);
  expect(await folder.namesIn("")).toEqual(["done", "failed", "taken"]);
  expect(await folder.namesIn("taken")).toEqual([]);
  expect((await sandbox.requests())["update 200"]).toBe(5);
});

test("another tenant's export is not carried out by itself, however small the service is", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(
    dir,
    codes(100, 103).map((n) => person(n)),
  );
  const folder = await dropFolder(dir);
  const env = applyingEnv(sandbox, dir, folder);
  await using _daemon = await startDaemon(env);
  await folder.drop("crm.csv", csv(codes(0, 30), "Köln"));
  expect(await folder.result("failed/crm.csv")).toMatchObject({
    result: "stopped",
    why: "other_crm",
  });
  expect((await sandbox.relations()).size).toBe(3);
});

test("without RECONCILE_APPLY an export is only compared, and the operator carries its plan out", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(
    dir,
    codes(0, 5).map((n) => person(n)),
  );
  const folder = await dropFolder(dir);
  const env = envFor(sandbox, { DATA_DIR: dir.path, RECONCILE_DIR: folder.path });
  await using daemon = await startDaemon(env);
  await folder.drop("crm.csv", csv(codes(0, 10), "Köln"));
  const done = await folder.result("done/crm.csv");
  const plan = join(folder.path, "done/crm.csv.plan.ndjson");
  expect(done).toMatchObject({
    result: "success",
    planned: 10,
    remedy: `look at the report; to carry the plan out: ${PROGRAM} reconcile --apply ${plan}`,
  });
  expect(done).not.toHaveProperty("applied");
  expect(Object.keys(await sandbox.requests()).toSorted()).toEqual([
    "list 200",
    "schema-config 200",
  ]);
  const { code, err } = await reconcile(env, ["--apply", plan]);
  expect(code, err).toBe(0);
  expect((await sandbox.relations()).size).toBe(10);
  expect((await daemon.status()).reconciliation.drift).toMatchObject({ missing: 0, different: 0 });
});

test("an export that is older than one that an operator has compared is not carried out", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, [person(1), person(2)]);
  const folder = await dropFolder(dir);
  const env = applyingEnv(sandbox, dir, folder);
  await using _daemon = await startDaemon(env);
  const newer = join(dir.path, "crm 2.ndjson");
  await writeFile(newer, lines([person(1), person(2)]));
  const compared = await reconcile(env, [newer, "--as-of", "2026-01-01T10:00:00Z", "--json"]);
  expect(JSON.parse(compared.out), compared.err).toMatchObject({ counts: { equal: 2 } });
  const older = lines([person(1, { city: "Trier" }), person(2)]);
  await folder.drop("crm 1.ndjson", older, "as-of: 2026-01-01T08:00:00Z\n");
  expect(await folder.result("failed/crm 1.ndjson")).toMatchObject({
    result: "failed",
    error: expect.stringContaining("could undo newer changes") as string,
  });
  expect((await sandbox.relations()).get("p1")).not.toHaveProperty("city");
});

test("a field that would change on many relations is left until a person has accepted it", async () => {
  await using dir = await tempDir();
  const all = codes(0, 30);
  await using sandbox = await sandboxWith(
    dir,
    all.map((n) => person(n, { city: "Köln", postalCode: "50667" })),
  );
  const folder = await dropFolder(dir);
  const env = applyingEnv(sandbox, dir, folder);
  await using _daemon = await startDaemon(env);
  await folder.drop("crm.csv", csv(all, "Köln"));
  expect(await folder.result("failed/crm.csv")).toMatchObject({
    result: "stopped",
    why: "fields",
    error: expect.stringContaining(
      "postalCode is not equal on 30 of 30 relations of type Person (30 not",
    ) as string,
  });
  const relations = [...(await sandbox.relations()).values()];
  expect(relations.filter((relation) => relation["postalCode"] !== "50667")).toEqual([]);
  // The column is there, and all of its cells are empty.
  const [header = "", ...rows] = csv(all, "Köln").trim().split("\n");
  const empty = [`${header},postalCode`, ...rows.map((row) => `${row},`)].join("\n");
  await folder.drop("crm2.csv", empty);
  expect(await folder.result("failed/crm2.csv")).toMatchObject({ why: "fields" });
  // The values of others.
  const others = [`${header},postalCode`, ...rows.map((row) => `${row},50667`)].join("\n");
  const moved = others.replaceAll("Köln", "Metz");
  await folder.drop("crm3.csv", moved);
  expect(await folder.result("failed/crm3.csv")).toMatchObject({
    error: expect.stringMatching(
      /city is not equal on 30 of 30 .*\(30 changed\), as p0, p1, p10: .*--accept city$/,
    ) as string,
  });
  await folder.drop("crm4.csv", moved, "accept: city\n");
  expect(await folder.result("done/crm4.csv")).toMatchObject({ applied: { sent: 30 } });
});
