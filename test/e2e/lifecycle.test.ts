import { describe, expect, it } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { type LocalSandbox, localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { envFor } from "../support/tenant-env.ts";
import { localCrmsync } from "../support/local-command.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

type Env = Record<string, string>;

/** Settings of a tenant whose ledger is warm and whose value lists are known. */
async function tenantOn(sandbox: LocalSandbox, prefix = uniquePrefix()): Promise<Env> {
  const env = envFor(sandbox, { QUEUE_PREFIX: prefix });
  await using daemon = await localDaemon(env);
  await waitFor(
    async () =>
      (await daemon.metric("crmsync_service_requests_total", { operation: "list" })) > 0 &&
      (await daemon.metric("crmsync_service_requests_total", { operation: "schema-config" })) > 0,
    { what: "the ledger is warm and the value lists are known" },
  );
  return env;
}

/** Sends events through a whole daemon and waits until all are settled. */
async function syncAll(env: Env, events: readonly unknown[]): Promise<void> {
  await using daemon = await localDaemon(env);
  expect((await daemon.push(events)).status).toBe(202);
  await waitUntilSettled(daemon);
}

/** Stages all events in a process without the role sync; then another process sends them. */
async function stageThenSync(env: Env, events: readonly unknown[]): Promise<void> {
  {
    await using intake = await localDaemon(env, new Set(["http", "intake"]));
    expect((await intake.push(events)).status).toBe(202);
    await waitFor(
      async () => (await intake.metric("crmsync_events_received_total")) === events.length,
      { what: "all events are staged" },
    );
  }
  await using sync = await localDaemon(env, new Set(["sync"]));
  await waitUntilSettled(sync);
}

/** The requests that some work costs, by operation and status. */
async function cost(
  sandbox: LocalSandbox,
  work: () => Promise<void>,
): Promise<Record<string, number>> {
  const before = await sandbox.requests();
  await work();
  const after = await sandbox.requests();
  return Object.fromEntries(
    Object.entries(after)
      .map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
      .filter(([name, count]) => count > 0 && /create|update|get/.test(name)),
  );
}

const deleted = (crmCode: string) =>
  personEvent(crmCode, {}, { type: "crm.record.deleted", data: undefined });
const restored = (crmCode: string) =>
  personEvent(crmCode, {}, { type: "crm.record.restored", data: undefined });

describe("exact number of requests", () => {
  it("many changes of one record before the first is sent: one create", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    const events = Array.from({ length: 30 }, (_, n) =>
      personEvent("1", { firstName: `v${n}` }, { time: `2026-01-01T00:00:${10 + n}Z` }),
    );
    const spent = await cost(sandbox, () => stageThenSync(env, events.toReversed()));
    expect(spent).toEqual({ "create 201": 1 });
    expect((await sandbox.relations()).get("1")).toMatchObject({ firstName: "v29" });
  });

  it("created and deleted before it was sent, or absent by the list alone: one request that asks", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    const events = [personEvent("1"), deleted("1"), deleted("2")];
    // A list alone is weak evidence. What the service answers is believed from then on.
    const asked = { "update 404": 1, "get 404": 1 };
    expect(await cost(sandbox, () => stageThenSync(env, events))).toEqual(asked);
  });

  it("deleted: the relation keeps its fields and is terminated; a second deletion costs nothing", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    await syncAll(env, [personEvent("1", { city: "Bern" })]);
    expect(await cost(sandbox, () => syncAll(env, [deleted("1")]))).toEqual({
      "get 200": 1,
      "update 200": 1,
    });
    expect((await sandbox.relations()).get("1")).toMatchObject({
      city: "Bern",
      relationStatus: "terminated",
    });
    expect(await cost(sandbox, () => syncAll(env, [deleted("1")]))).toEqual({});
    await syncAll(env, [restored("1")]);
    expect((await sandbox.relations()).get("1")).toMatchObject({ relationStatus: "active" });
  });

  it("deleted with its record: one request; created again: one request", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    await syncAll(env, [personEvent("1")]);
    const withRecord = personEvent("1", { city: "Rome" }, { type: "crm.record.deleted" });
    expect(await cost(sandbox, () => syncAll(env, [withRecord]))).toEqual({ "update 200": 1 });
    const again = personEvent("1", {}, { type: "crm.record.created" });
    expect(await cost(sandbox, () => syncAll(env, [again]))).toEqual({ "update 200": 1 });
    expect((await sandbox.relations()).get("1")).toMatchObject({ relationStatus: "active" });
  });

  it("merged: the survivor is updated, the merged records are terminated", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    await syncAll(env, [personEvent("1"), personEvent("2"), personEvent("3")]);
    const merge = personEvent("1", { city: "Bern" }, { type: "crm.record.merged" });
    Object.assign(merge["data"] as object, { merged: ["contact/2", "contact/3", "contact/4"] });
    await syncAll(env, [merge]);
    const relations = await sandbox.relations();
    expect(relations.get("1")).toMatchObject({ city: "Bern", relationStatus: "active" });
    expect(relations.get("2")).toMatchObject({ relationStatus: "terminated" });
    expect(relations.get("3")).toMatchObject({ relationStatus: "terminated" });
    expect(relations.has("4")).toBe(false);
  });

  it("heals a relation that another program created, with one more request", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    const other = await tenantOn(sandbox);
    await syncAll(other, [personEvent("1", { city: "Rome" })]);
    expect(await cost(sandbox, () => syncAll(env, [personEvent("1")]))).toEqual({
      "create 409": 1,
      "update 200": 1,
    });
  });

  it("a person that becomes a company is a dead letter with a remedy, without a request", async () => {
    await using sandbox = await localSandbox();
    const env = await tenantOn(sandbox);
    await syncAll(env, [personEvent("1")]);
    const company = personEvent("1");
    company["data"] = { record: { type: "Fund", crmCode: "1", name: "Fund One" } };
    expect(await cost(sandbox, () => syncAll(env, [company]))).toEqual({});
    await using list = localCrmsync(["dead", "list", "--json"], { env });
    expect((await list.ended).code).toBe(0);
    expect(JSON.parse(list.stdout[0] ?? "")).toMatchObject({
      id: "c:1",
      reason: "variant_changed",
      remedy: expect.stringContaining("new crmCode") as string,
    });
  });
});
