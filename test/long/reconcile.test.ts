/** `crmsync reconcile` under live changes and kills: what is planned happens once, and nothing else. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { codes, person, plant, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

test("every planted difference is found and repaired, and no live change is undone, through two kills", async () => {
  await using dir = await tempDir();
  const all = codes(0, 700).map((n) => person(n));
  await using sandbox = await sandboxWith(dir, all.slice(300));
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    QUOTA_BURST: "20",
    QUOTA_BURST_MS: "250",
    QUOTA_LIVE_RESERVE: "0",
  });
  await using daemon = await startDaemon(env);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", {
    what: "a warm ledger",
  });
  // Changes by hand, which no event tells: the ledger is wrong from here on.
  await plant(dir, [
    ...codes(300, 340).map((n) => person(n, { city: "Wiltz" })),
    ...codes(340, 370).map((n) => person(n, { relationStatus: "terminated" })),
    ...codes(2000, 2025).map((n) => person(n)),
    ...codes(2025, 2030).map((n) => person(n, { relationStatus: "terminated" })),
  ]);
  const snapshot = [
    ...all.slice(0, 370),
    ...codes(370, 385).map((n) => person(n, { relationStatus: "terminated" })),
    ...all.slice(385),
    ...codes(3000, 3004).map((n) => person(n, { nationality: "Utopia" })),
    { ...person(0), crmCode: undefined, id: "x" },
    person(699, { lastName: "Twice" }),
  ];
  const file = join(dir.path, "crm.json");
  await writeFile(file, JSON.stringify(snapshot));
  // Live changes, before and while it compares, of records that the snapshot has as they were.
  const live = codes(600, 630);
  await daemon.push(live.map((n) => personEvent(`p${n}`, { lastName: "Live" })));
  const found = await reconcile(env, [file, "--json"]);
  expect(found.code, found.err).toBe(0);
  expect(JSON.parse(found.out)).toMatchObject({
    counts: {
      missing: 300,
      different: 40,
      terminated: 30,
      ended: 15,
      extra: 25,
      invalid: 4,
      unmappable: 1,
      duplicate: 1,
      waiting: 0,
    },
    fields: { city: 40, relationStatus: 45 },
    requests: 385,
  });
  const { plan } = JSON.parse(found.out) as { plan: { file: string } };
  expect(await readFile(plan.file, "utf8")).not.toMatch(/Muster|Wiltz/);

  const apply = [file, "--apply", plan.file, "--json"];
  const created = async () => (await sandbox.requests())["create 201"] ?? 0;
  const bulk = async () => (await daemon.status()).backlog.bulk.records;
  for (const sent of [60, 160]) {
    await using command = spawnCrmsync(["reconcile", ...apply], { env });
    await waitFor(async () => (await created()) >= sent, {
      deadlineMs: 120_000,
      what: "some are sent",
    });
    await daemon.push(live.map((n) => personEvent(`p${n}`, { lastName: `Live ${sent}` })));
    expect(await bulk()).toBeLessThanOrEqual(300);
    command.kill("SIGKILL");
    await command.ended;
  }
  const applied = await reconcile(env, apply);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  const again = await reconcile(env, apply);
  expect(again).toMatchObject({
    code: 1,
    err: expect.stringContaining("carried out already") as string,
  });

  const relations = await sandbox.relations();
  const held = (n: number) => relations.get(`p${n}`) ?? {};
  expect(codes(0, 340).filter((n) => held(n)["lastName"] !== `Muster ${n}`)).toEqual([]);
  expect(codes(300, 370).filter((n) => held(n)["city"] !== undefined)).toEqual([]);
  expect(codes(340, 370).filter((n) => held(n)["relationStatus"] === "terminated")).toEqual([]);
  expect(codes(370, 385).filter((n) => held(n)["relationStatus"] !== "terminated")).toEqual([]);
  expect(live.filter((n) => held(n)["lastName"] !== "Live 160")).toEqual([]);
  expect(codes(2000, 2025).filter((n) => held(n)["relationStatus"] === "terminated")).toEqual([]);
  // Each change of the plan cost one request, each live change at most one.
  const { "update 200": updated = 0 } = await sandbox.requests();
  expect(await created()).toBe(300);
  expect(updated).toBeLessThanOrEqual(85 + 3 * live.length);
});
