/** RECONCILE_DIR under kill -9: what was taken is continued, and nothing is sent twice. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon } from "../support/crmsync.ts";
import { csv, dropFolder } from "../support/drop-folder.ts";
import { codes, person, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

test("an export is taken up again after kill -9 while it is listed and while it is carried out", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(
    dir,
    codes(0, 5).map((n) => person(n)),
  );
  const folder = await dropFolder(dir);
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    RECONCILE_DIR: folder.path,
    RECONCILE_APPLY: "1",
    // Carrying it out takes two windows.
    QUOTA_PER_HOUR: "40",
    QUOTA_HOUR_MS: "10000",
    // What a killed process held is soon free again.
    QUOTA_BURST_MS: "100",
    QUOTA_LIVE_RESERVE: "0",
  });
  const untilTask = (like: RegExp) =>
    waitFor(async () => like.test(await readFile(join(folder.path, "taken/.task.json"), "utf8")), {
      what: `a task like ${String(like)}`,
    });
  const killAfter = async (what: () => Promise<unknown>) => {
    await using daemon = await startDaemon(env);
    await what();
    daemon.process.kill("SIGKILL");
    await daemon.process.ended;
  };
  let endFault = async () => {};
  await killAfter(async () => {
    const first = { "list 200": 1, "schema-config 200": 1 };
    await waitFor(async () => isDeepStrictEqual(await sandbox.requests(), first), {
      what: "a warm ledger",
    });
    // Each of them: the value lists, too, are requested once in an hour of ten seconds.
    endFault = await armFault(sandbox, { fault: "hang", method: "GET" });
    const before = await struck(sandbox.faultsUrl);
    await folder.drop("crm.csv", csv(codes(0, 60), "Köln"));
    await untilTask(/"tries":1/);
    await waitFor(async () => (await struck(sandbox.faultsUrl)) > before, {
      what: "a page requested",
    });
  });
  await endFault();
  await killAfter(() => untilTask(/"tries":0/));
  expect((await sandbox.requests())["update 200"] ?? 0).toBeLessThan(60);

  await using daemon = await startDaemon(env);
  expect(await folder.result("done/crm.csv")).toMatchObject({
    result: "success",
    planned: 60,
    applied: expect.objectContaining({}) as object,
  });
  // Written before the plan was begun.
  const report = await readFile(join(folder.path, "done/crm.csv.report.ndjson"), "utf8");
  expect(report.trimEnd().split("\n")).toHaveLength(60);
  const relations = await sandbox.relations();
  expect(relations.size).toBe(60);
  expect([...relations.values()].filter(({ city }) => city !== "Köln")).toEqual([]);
  expect((await sandbox.requests())["create 201"]).toBe(55);
  expect(await folder.namesIn("taken")).toEqual([]);
  const { findings } = await daemon.status();
  expect(findings.filter(({ runbook }) => runbook.includes("reconcile"))).toEqual([]);
});

async function struck(faultsUrl: string): Promise<number> {
  const { faults } = (await (await fetch(`${faultsUrl}/faults`)).json()) as {
    faults: { struck: number }[];
  };
  return faults.reduce((sum, fault) => sum + fault.struck, 0);
}
