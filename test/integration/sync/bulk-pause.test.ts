/** The lane bulk while an operator has paused it: what is sent, and what waits. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { pauseBulk, resumeBulk } from "../../../src/whole/pause-bulk.ts";
import { readConfig } from "../../../src/base/config.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import type { Lane } from "../../../src/core/event/lane.ts";
import type { Parts } from "../../../workers/parts.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { waitFor } from "../../support/wait-for.ts";

const BY = { by: "ada@test" };

/** What a command works with, on another connection. */
function storesOf({ config }: Parts): Stores {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const stores = openStores(readConfig({ QUEUE_PREFIX: config.QUEUE_PREFIX }), redis);
  onTestFinished(() => stores.close());
  return stores;
}

function startLoop(runtime: Parts, service = new ScriptedService()): ScriptedService {
  const sync = startSync(runtime, service.access());
  onTestFinished(() => {
    service.end();
    return sync.close();
  });
  return service;
}

let order = 0;
async function stage(runtime: Parts, crmCode: string, lane: Lane): Promise<void> {
  order += 1;
  const fields = { type: "Person", crmCode, firstName: lane, lastName: "Muster" };
  await runtime.staged.stage({
    crmCode,
    payload: JSON.stringify(fields),
    eventKey: `key ${order}`,
    order: `order ${String(order).padStart(4, "0")}`,
    fingerprint: `fingerprint ${order}`,
    variant: "Person",
    status: "mapped",
    lane,
    time: Date.now(),
    event: "{}",
  });
}

const sentBy = ({ requests }: ScriptedService) =>
  requests.map(({ decision }) =>
    decision.kind === "fetch"
      ? undefined
      : [decision.body["crmCode"], decision.body["firstName"]].join(" "),
  );

test("live changes go on, a live event sends its bulk change along, and the others wait", async () => {
  const runtime = newRuntime();
  await runtime.stateVersion.require();
  const stores = storesOf(runtime);
  await runtime.ledger.continueCold(Date.now());
  expect(await pauseBulk(stores, { ...BY, reason: " the CRM is being moved " })).toMatchObject({
    begun: true,
    pause: { by: "ada@test", reason: "the CRM is being moved" },
  });
  // The first one stays in force.
  expect(await pauseBulk(stores, { by: "bob@test" })).toMatchObject({ begun: false, pause: BY });
  const service = startLoop(runtime);
  for (const crmCode of ["b1", "b2", "b3"]) await stage(runtime, crmCode, "bulk");
  await stage(runtime, "l1", "live");
  (await service.nth(1)).reply({ kind: "created" });
  await stage(runtime, "b2", "live");
  (await service.nth(2)).reply({ kind: "created" });
  await waitFor(async () => (await runtime.redis.zcard(runtime.keys.line("live"))) === 0, {
    what: "both are settled",
  });
  expect(sentBy(service)).toEqual(["l1 live", "b2 live"]);
  expect(await runtime.redis.zrange(runtime.keys.line("bulk"), "0", "-1")).toEqual(["b1", "b3"]);
  // Without a permit for each look.
  expect(service.permitRequests).toBe(2);

  expect(await resumeBulk(stores, BY)).toMatchObject({ reason: "the CRM is being moved" });
  (await service.nth(3)).reply({ kind: "created" });
  (await service.nth(4)).reply({ kind: "created" });
  expect(sentBy(service).slice(2)).toEqual(["b1 bulk", "b3 bulk"]);
  expect(await resumeBulk(stores, BY)).toBeUndefined();
});

test("a process that waits for a permit for bulk gives up, and one that has it sends nothing", async () => {
  const runtime = newRuntime();
  await runtime.stateVersion.require();
  const stores = storesOf(runtime);
  await runtime.ledger.continueCold(Date.now());
  const service = new ScriptedService();
  service.permits = 0;
  startLoop(runtime, service);
  await stage(runtime, "b1", "bulk");
  await waitFor(() => service.waiting === 1, { what: "it waits for a permit" });
  await pauseBulk(stores, BY);
  await waitFor(() => service.waiting === 0, { what: "it gives up" });
  service.permits = 1;
  await stage(runtime, "l1", "live");
  (await service.nth(1)).reply({ kind: "created" });
  expect(sentBy(service)).toEqual(["l1 live"]);
});

test("the retry of a bulk change spends no live permit, and none while the lane is paused", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await runtime.stateVersion.require();
  const stores = storesOf(runtime);
  await runtime.ledger.continueCold(Date.now());
  const service = new ScriptedService();
  const lanes: Lane[] = [];
  const access = service.access();
  const acquire: typeof access.quota.acquire = (lane, signal) => {
    lanes.push(lane);
    return access.quota.acquire(lane, signal);
  };
  const sync = startSync(runtime, { ...access, quota: { ...access.quota, acquire } });
  onTestFinished(() => {
    service.end();
    return sync.close();
  });
  const failed = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
  await stage(runtime, "b1", "bulk");
  (await service.nth(1)).reply(failed);
  (await service.nth(2)).reply(failed);
  const third = await service.nth(3);
  expect(lanes).toEqual(["bulk", "bulk", "bulk"]);

  await pauseBulk(stores, BY);
  third.reply(failed);
  await waitFor(
    async () => {
      const [waiting] = await runtime.staged.waiting(["b1"]);
      const due = waiting?.taken === undefined ? waiting?.due : undefined;
      return due !== undefined && due < Date.now();
    },
    { what: "its retry is due" },
  );
  await stage(runtime, "l1", "live");
  (await service.nth(4)).reply({ kind: "created" });
  expect(lanes).toEqual(["bulk", "bulk", "bulk", "live"]);
  await resumeBulk(stores, BY);
  (await service.nth(5)).reply({ kind: "created" });
  expect(sentBy(service).slice(3)).toEqual(["l1 live", "b1 bulk"]);
});

test("a live change that comes while the bulk change of its record fails is sent as a live one", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "1000" });
  await runtime.stateVersion.require();
  await runtime.ledger.continueCold(Date.now());
  const service = startLoop(runtime);
  await stage(runtime, "r1", "bulk");
  const first = await service.nth(1);
  await stage(runtime, "r1", "live");
  await pauseBulk(storesOf(runtime), BY);
  first.reply({ kind: "unavailable", reason: "server_error", ambiguous: false });
  (await service.nth(2)).reply({ kind: "created" });
  expect(sentBy(service)).toEqual(["r1 bulk", "r1 live"]);
});

test("a reason that is no line of a status is refused", async () => {
  const stores = storesOf(newRuntime());
  const reason = "x".repeat(201);
  await expect(pauseBulk(stores, { ...BY, reason })).rejects.toThrow("201 characters: at most 200");
  expect(await stores.bulkPauses.current()).toBeUndefined();
});
