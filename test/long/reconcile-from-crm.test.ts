/** `crmsync reconcile --from` as a user runs it, through kills at every stage, with a STATE_KEY. */
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { CRM_APIS, standInFor } from "../support/crm-stand-ins.ts";
import { localDaemon } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { spawnCrmsync } from "../support/process.ts";
import { codes, plant, reconcile, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { textOfFiles } from "../support/text-of-files.ts";
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
      city: properties.city
`;

const contact = (n: number, properties: Fields = {}) => ({
  id: String(100_000 + n),
  properties: { firstname: "Ada", lastname: `Muster ${n}`, city: "Berg", ...properties },
});

const relation = (n: number, fields: Fields = {}) => ({
  type: "Person",
  crmCode: `h-${100_000 + n}`,
  firstName: "Ada",
  lastName: `Muster ${n}`,
  name: `Ada Muster ${n}`,
  city: "Berg",
  ...fields,
});

const ALL = 800;
const PER_PAGE = 20;

const textIn = async (folder: string) => [...(await textOfFiles(folder)).values()].join("\n");

test("a list, and plans from it, continue after kills; the CRM is asked for each page once", async () => {
  const [hubspot] = CRM_APIS;
  if (hubspot === undefined) throw new Error("no stand-in");
  await using dir = await tempDir();
  await using crm = await standInFor(hubspot);
  crm.list.pageSize = PER_PAGE;
  crm.list.records.set(
    "contacts",
    codes(0, ALL).map((n) => contact(n)),
  );
  await using sandbox = await sandboxWith(dir, [
    ...codes(40, ALL).map((n) => relation(n, n < 60 ? { city: "Wiltz" } : {})),
    ...codes(5000, 5010).map((n) => relation(n)),
  ]);
  await writeFile(join(dir.path, "own.yaml"), MAPPING);
  const data = join(dir.path, "data");
  const env = envFor(sandbox, {
    DATA_DIR: data,
    MAPPING: join(dir.path, "own.yaml"),
    STATE_KEY: Buffer.alloc(32, 5).toString("base64"),
    QUOTA_BURST: "10",
    QUOTA_BURST_MS: "500",
    QUOTA_LIVE_RESERVE: "0",
    ...hubspot.settings(crm.url),
    ...hubspot.secrets,
  });
  await using daemon = await localDaemon(env);
  const { keys, redis } = newRuntime({ QUEUE_PREFIX: env.QUEUE_PREFIX });
  const listings = async () =>
    (await readdir(join(data, "reconcile"))).filter((name) => name.endsWith(".sqlite"));

  // Killed while it lists.
  await using first = spawnCrmsync(["reconcile", "--from", "hubspot"], { env });
  await waitFor(() => crm.reads.length >= 8, { what: "some pages" });
  first.kill("SIGKILL");
  await first.ended;
  expect(crm.reads.length).toBeLessThan(ALL / PER_PAGE);
  expect(await listings()).toHaveLength(1);
  expect(await textIn(join(data, "reconcile"))).not.toContain("Muster");

  const found = await reconcile(env, ["--from", "hubspot", "--json"]);
  expect(found.code, found.err).toBe(0);
  const result = JSON.parse(found.out) as { plan: { file: string } };
  expect(result).toMatchObject({
    listing: { crm: "hubspot", objects: { contact: ALL } },
    records: ALL,
    counts: { equal: ALL - 60, missing: 40, different: 20, extra: 10 },
    fields: [{ field: "city", changed: 20, equal: ALL - 60 }],
    requests: 60,
  });
  // The page that was under way is asked for again.
  expect(crm.reads.length).toBeLessThanOrEqual(ALL / PER_PAGE + 3);
  const pages = crm.reads.length;

  // Killed while it carries out the plan; by then the CRM has other values.
  crm.list.records.set(
    "contacts",
    codes(0, ALL).map((n) => contact(n, { lastname: "Later" })),
  );
  const requests = async (name: string) => (await sandbox.requests())[name] ?? 0;
  const killAt = async (args: string[], operation: string, most: number) => {
    await using command = spawnCrmsync(["reconcile", ...args], { env });
    await waitFor(async () => (await requests(operation)) >= most, {
      what: `${most} times ${operation}`,
    });
    command.kill("SIGKILL");
    await command.ended;
    // reconcile-plans.test.ts waits for the end of a lease; here it has ended.
    expect(await redis.del(keys.planOwner)).toBe(1);
  };
  const { file } = result.plan;
  await killAt(["--apply", file], "create 201", 10);
  const applied = await reconcile(env, ["--apply", file, "--json"]);
  expect(applied.code, applied.err).toBe(0);
  await waitUntilSettled(daemon);
  expect(await requests("create 201")).toBe(40);
  expect(await requests("update 200")).toBe(20);
  const relations = await sandbox.relations();
  expect(
    codes(0, ALL).filter((n) => relations.get(`h-${100_000 + n}`)?.["lastName"] !== `Muster ${n}`),
  ).toEqual([]);
  expect([...relations.values()].filter(({ city }) => city === "Wiltz")).toEqual([]);
  expect(crm.reads).toHaveLength(pages);
  expect(await listings()).toEqual([]);

  // In one go, and killed: the same command continues with the records that were listed.
  crm.list.records.set(
    "contacts",
    codes(0, ALL).map((n) => contact(n)),
  );
  await plant(
    dir,
    codes(200, 240).map((n) => relation(n, { city: "Trier" })),
  );
  const inOneGo = ["--from", "hubspot", "--apply", "--yes"];
  await killAt(inOneGo, "update 200", 30);
  expect(await listings()).toHaveLength(1);
  const pagesOfSecond = crm.reads.length;
  const again = await reconcile(env, [...inOneGo, "--json"]);
  expect(again.code, again.err).toBe(0);
  expect(JSON.parse(again.out)).toMatchObject({ entries: 40 });
  await waitUntilSettled(daemon);
  expect(await requests("update 200")).toBe(60);
  expect(crm.reads).toHaveLength(pagesOfSecond);
  expect(await listings()).toEqual([]);
  expect(await textIn(join(data, "reconcile"))).not.toContain("Muster");

  // Everything is equal: nothing stays.
  const equal = await reconcile(env, ["--from", "hubspot"]);
  expect(equal.out).toContain("hubspot has listed 800 contact in 41 requests");
  expect(await listings()).toEqual([]);
});

test("what cannot be listed is said before anything is asked", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: "hubspot" });
  const withToken = { ...env, HUBSPOT_TOKEN: "pat-1" };
  for (const [exitCode, args, message] of [
    [1, ["--from", "hubspot"], "set HUBSPOT_TOKEN"],
    [1, ["--from", "espocrm"], "set ESPOCRM_URL, ESPOCRM_API_KEY"],
    [2, ["--from", "hubspot", "file.json"], "not both"],
    [2, ["--from", "hubspot", "--as-of", "2026-11-21T08:00:00Z"], "--as-of is for files"],
    [2, ["--from", "hubspot", "--object", "contact", "--terminate-missing"], "leave out --object"],
    [1, ["--from", "hubspot", "--mapping", "business-relation"], "does not name the objects"],
  ] as const) {
    const { code, err } = await reconcile(args.length === 2 ? env : withToken, args);
    expect(code, err).toBe(exitCode);
    expect(err).toContain(message);
  }
});
