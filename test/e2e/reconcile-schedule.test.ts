/** RECONCILE_CRON with two daemons and a stand-in of the CRM. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { endSchedule } from "../../workers/reconcile-scheduled.ts";
import { CRM_APIS, standInFor } from "../support/crm-stand-ins.ts";
import { localDaemon } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { codes, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const MAPPING = `version: 1
name: own
objects:
  - object: contact
    crmCode: '"h-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: properties.firstname
      lastName: properties.lastname
`;

const DAY_MS = 86_400_000;

afterEach(() => void vi.unstubAllEnvs());

test("a run that was missed is made up for once, by one of two daemons", async () => {
  const [hubspot] = CRM_APIS;
  if (hubspot === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using crm = await standInFor(hubspot);
  crm.list.pageSize = 20;
  crm.list.records.set(
    "contacts",
    codes(0, 40).map((n) => ({
      id: String(100_000 + n),
      properties: { firstname: "Ada", lastname: `Muster ${n}` },
    })),
  );
  const names = ["firstname", "lastname"];
  crm.description.fields.set("contact", new Map(names.map((name) => [name, "string"])));
  await using sandbox = await sandboxWith(dir, []);
  await writeFile(join(dir.path, "own.yaml"), MAPPING);
  const env = envFor(sandbox, {
    DATA_DIR: dir.path,
    MAPPING: join(dir.path, "own.yaml"),
    RECONCILE_CRON: "30 2 * * *",
    RECONCILE_FROM: "hubspot",
    RECONCILE_APPLY: "1",
    ...hubspot.settings(crm.url),
    ...hubspot.secrets,
  });
  // The process that compares reads its settings from the environment of the daemon.
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  // The last run was done two days ago; no daemon ran since.
  const runtime = newRuntime({ QUEUE_PREFIX: env.QUEUE_PREFIX });
  const { keys, redis } = runtime;
  await redis.hset(keys.reconcileSchedule, "done", Date.now() - 2 * DAY_MS);
  await using one = await localDaemon(env);
  await using other = await localDaemon(env);
  const lastRun = await waitFor(
    async () => (await one.status()).reconciliation.lastRuns["schedule"],
    { what: "the run has ended" },
  );
  expect(lastRun).toMatchObject({ result: "success" });
  expect((await sandbox.relations()).size).toBe(40);
  expect((await sandbox.requests())["create 201"]).toBe(40);
  // The properties of the object and two pages, requested once.
  expect(crm.reads).toHaveLength(3);
  // As a process without RECONCILE_CRON does.
  await endSchedule(runtime);
  await waitFor(
    async () => Date.parse((await other.status()).reconciliation.nextRunAt ?? "") > Date.now(),
    { what: "the next run is planned" },
  );
  expect(Number(await redis.hget(keys.reconcileSchedule, "done"))).toBeGreaterThan(
    Date.now() - DAY_MS,
  );
  await expect.poll(async () => (await one.status()).findings).toEqual([]);
});
