/** A tenant's list loses values and gets them back: what becomes of relations, changes and dead letters. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, inject, test } from "vitest";
import { Administration, DEFAULT_TENANT } from "../../src/sandbox/administration.ts";
import { openDatabase } from "../../src/sandbox/database.ts";
import { parseTenantValues } from "../../src/sandbox/tenant-values.ts";
import { BulkPauses } from "../../src/core/state/bulk-changes.ts";
import { keysOf } from "../../src/core/state/keys.ts";
import { StoredTenantLists } from "../../src/core/state/tenant-lists.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { CRM_APIS, standInFor } from "../support/crm-stand-ins.ts";
import { type LocalDaemon, localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { personMapping } from "../support/person-mapping.ts";
import { tempDir } from "../support/temp-dir.ts";
import { textOfKeys } from "../support/text-of-keys.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

/** Its sixth is longer than the pause between two tries of an event that the lists refuse. */
const HOUR_MS = "36000";

async function open(
  dir: string,
  mapping: string,
  lists: object,
  more: Record<string, string> = {},
) {
  const db = join(dir, "sandbox.db");
  const sandbox = await localSandbox({ db });
  const database = openDatabase(db);
  const administration = new Administration(database);
  const tenant = { name: DEFAULT_TENANT, environment: "test" } as const;
  const setValues = (values: object) =>
    administration.setValues(tenant, parseTenantValues(JSON.stringify(values)));
  setValues(lists);
  const prefix = uniquePrefix();
  const redis = new Redis(inject("redisUrl"));
  // The service and the lists disagree: they are asked for soon, and not only once an hour.
  const allow = async (values: object) => {
    setValues(values);
    await new StoredTenantLists(redis, keysOf(prefix), Number(HOUR_MS)).doubt(Date.now());
  };
  const file = join(dir, "mapping.yaml");
  await writeFile(file, mapping);
  const daemon = await localDaemon({
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: prefix,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    MAPPING: file,
    QUOTA_HOUR_MS: HOUR_MS,
    QUOTA_BURST: "100",
    QUOTA_BURST_MS: "100",
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
    ...more,
  });
  return {
    daemon,
    allow,
    redis,
    prefix,
    relation: async (crmCode: string) => (await sandbox.relations()).get(crmCode),
    async [Symbol.asyncDispose]() {
      await daemon[Symbol.asyncDispose]();
      redis.disconnect();
      database.close();
      await sandbox[Symbol.asyncDispose]();
    },
  };
}

const changed = (daemon: LocalDaemon, times: number) =>
  waitFor(() => daemon.log.filter((line) => line.includes("value_lists.changed")).length >= times, {
    what: `the lists have changed ${times} times`,
  });

const letters = (daemon: LocalDaemon, count: number) =>
  waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === count, {
    what: `${count} dead letters`,
  });

const findings = async (daemon: LocalDaemon) =>
  (await daemon.status()).findings.map(({ says }) => says);

test("what the service has of a lost value stays; once the list has it again, events bring it", async () => {
  await using dir = await tempDir();
  const mapping = personMapping("service: service");
  await using all = await open(dir.path, mapping, { service: ["gold", "silver"] });
  const { allow, daemon, relation } = all;
  await daemon.push([
    personEvent("one", { service: "gold" }),
    personEvent("both", { service: "gold;silver" }),
    personEvent("plain"),
  ]);
  await waitUntilSettled(daemon);

  await allow({ service: ["silver"] });
  await changed(daemon, 1);
  await daemon.push([
    personEvent("one", { service: "gold", lastName: "Neu" }),
    personEvent("both", { service: "gold;silver", lastName: "Neu" }),
    personEvent("plain", { service: "gold;silver", lastName: "Neu" }),
    personEvent("new", { service: "gold" }),
  ]);
  await letters(daemon, 2);
  await waitUntilSettled(daemon);
  expect(await relation("one")).toMatchObject({ lastName: "Muster", service: ["gold"] });
  expect(await relation("both")).toMatchObject({ lastName: "Muster", service: ["gold", "silver"] });
  expect(await relation("plain")).toMatchObject({ lastName: "Neu", service: ["silver"] });
  expect((await relation("new"))?.["service"]).toBeUndefined();
  expect((await findings(daemon)).join()).toMatch(
    /service lost 1 value at [^;]+\. What the service has there stays/,
  );

  await allow({ service: ["silver", "gold"] });
  await changed(daemon, 2);
  await letters(daemon, 0);
  const missed = /allow more\. Sent without a value were service \(2 relations\)/;
  await waitFor(async () => missed.test((await findings(daemon)).join()), {
    what: "status counts the relations that lack the value",
  });
  await daemon.push([
    personEvent("plain", { service: "gold;silver", lastName: "Neu" }),
    personEvent("new", { service: "gold" }),
  ]);
  await waitFor(async () => (await relation("new"))?.["service"] !== undefined, {
    what: "new has its value",
  });
  await waitUntilSettled(daemon);
  expect(await relation("one")).toMatchObject({ lastName: "Neu", service: ["gold"] });
  expect(await relation("both")).toMatchObject({ lastName: "Neu", service: ["gold", "silver"] });
  expect(await relation("plain")).toMatchObject({ service: ["gold", "silver"] });
  expect(await relation("new")).toMatchObject({ service: ["gold"] });
  expect((await findings(daemon)).join()).not.toContain("lost");
});

test("a settled record with a value outside of the list leaves its values nowhere in Redis", async () => {
  await using dir = await tempDir();
  await using all = await open(dir.path, personMapping("service: service"), { service: ["gold"] });
  const { daemon, prefix, redis, relation } = all;
  const values = { firstName: "Zacharias", lastName: "Uhlenhorst", service: "concierge" };
  // The first write after a start waits five minutes more, to be read once.
  await daemon.push([personEvent("0", { service: "gold" })]);
  await waitFor(() => relation("0"), { what: "the first relation is on the service" });
  await daemon.push([personEvent("1", values)]);
  await waitFor(() => relation("1"), { what: "the relation is on the service" });
  await waitUntilSettled(daemon);
  const texts = await textOfKeys(redis, prefix);
  expect(texts.get(keysOf(prefix).ledger)).toContain('"without":{"fields":["service"]');
  for (const [key, text] of texts) expect(text, key).not.toMatch(/zacharias|uhlenhorst|concierge/i);
});

test("once a list has a value, records that lack it are fetched where their CRM can be read", async () => {
  const hubspot = CRM_APIS.find(({ name }) => name === "hubspot");
  if (hubspot === undefined) throw new Error("no stand-in for HubSpot");
  await using standIn = await standInFor(hubspot);
  await using dir = await tempDir();
  const mapping = personMapping("service: properties.lastname")
    .replace("firstName: firstName", "firstName: properties.firstname")
    .replace("lastName: lastName", "lastName: properties.lastname");
  const access = { ...hubspot.settings(standIn.url), ...hubspot.secrets };
  await using all = await open(dir.path, mapping, { service: ["gold"] }, access);
  const { allow, daemon, relation } = all;
  const event = {
    source: "/hubspot/123",
    subject: `contact/${hubspot.recordId}`,
    data: { fetch: "hubspot" },
  };
  await daemon.push([personEvent("1", {}, event)]);
  const found = () => relation(hubspot.recordId);
  const first = await waitFor(found, { what: "the relation is on the service" });
  expect(first["service"]).toBeUndefined();
  await waitUntilSettled(daemon);

  await allow({ service: ["gold", String(first["lastName"])] });
  await waitFor(async () => (await found())?.["service"] !== undefined, {
    what: "the relation has the value",
    deadlineMs: 60_000,
  });
  await waitUntilSettled(daemon);
  expect(await found()).toMatchObject({ service: [first["lastName"]] });
  expect((await findings(daemon)).join()).not.toContain("Sent without");
});

test("the mapping's own rule comes first: required, default, fallback", async () => {
  await using dir = await tempDir();
  const mapping = personMapping(
    "branch: { from: branches, required: true }",
    "service: { from: main, fallback: second, default: silver }",
  );
  await using all = await open(dir.path, mapping, {
    branch: ["geneva"],
    service: ["gold", "silver"],
  });
  const { allow, daemon, relation } = all;
  await daemon.push([
    personEvent("1", { branches: "Geneva", main: "bronze", second: "GOLD" }),
    personEvent("2", { branches: "geneva", main: "bronze" }),
    personEvent("3", { branches: "zurich", main: "gold" }),
  ]);
  await letters(daemon, 1);
  await waitUntilSettled(daemon);
  expect(await relation("1")).toMatchObject({ branch: ["geneva"], service: ["gold"] });
  expect(await relation("2")).toMatchObject({ branch: ["geneva"], service: ["silver"] });
  expect(await relation("3")).toBeUndefined();

  await allow({ branch: ["geneva", "zurich"] });
  await letters(daemon, 0);
  await waitUntilSettled(daemon);
  expect(await relation("3")).toMatchObject({ branch: ["zurich"], service: ["gold"] });
});

test("a list that shrinks between staging and sending: what the service has stays", async () => {
  await using dir = await tempDir();
  const mapping = personMapping("service: service");
  await using all = await open(dir.path, mapping, { service: ["gold", "silver"] });
  const { allow, daemon, prefix, redis, relation } = all;
  await daemon.push([personEvent("1", { service: "gold" })]);
  await waitUntilSettled(daemon);
  const pauses = new BulkPauses(redis, keysOf(prefix));
  await pauses.begin({ since: Date.now(), by: "test" });
  const changes = { service: "silver", lastName: "Neu" };
  await daemon.push([
    personEvent("1", changes, { lane: "bulk" }),
    personEvent("2", changes, { lane: "bulk" }),
  ]);
  await waitFor(async () => (await daemon.status()).backlog.bulk.records === 2, {
    what: "both wait",
  });
  await allow({ service: ["gold"] });
  await changed(daemon, 1);
  await pauses.end();
  await waitFor(async () => (await relation("2")) !== undefined, { what: "the second is sent" });
  await waitUntilSettled(daemon);
  expect(await relation("1")).toMatchObject({ lastName: "Neu", service: ["gold"] });
  expect((await relation("2"))?.["service"]).toBeUndefined();
  expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
});
