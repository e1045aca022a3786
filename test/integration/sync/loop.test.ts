import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, it, vi } from "vitest";
import { hashOf } from "../../../src/base/log-names.ts";
import type { Sendable } from "../../../src/core/sync/decide.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import type { Lane } from "../../../src/core/event/lane.ts";
import { runRelation } from "../../../workers/run-relation.ts";
import type { Parts } from "../../../workers/parts.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import {
  DELETED,
  editStaged,
  listed,
  passTime,
  stateOf,
  takeFrom,
} from "../../support/stores-of.ts";
import { waitFor } from "../../support/wait-for.ts";

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).toReversed()) await close();
});

function startLoop(runtime: Parts, service: ScriptedService): void {
  const sync = startSync(runtime, service.access());
  closing.push(() => {
    service.end();
    return sync.close();
  });
}

let order = 0;
async function stage(
  { staged }: Parts,
  crmCode: string,
  firstName: string,
  lane: Lane = "live",
): Promise<void> {
  order += 1;
  const payload = JSON.stringify({ type: "Person", crmCode, firstName, lastName: "Muster" });
  await staged.stage({
    crmCode,
    payload,
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

/** The share of the lane is used up. */
async function noPermit(signal: AbortSignal | undefined): Promise<never> {
  for (;;) {
    signal?.throwIfAborted();
    await nextTurn();
  }
}

/** No change waits. */
const settled = ({ keys, redis }: Parts) =>
  waitFor(
    async () => (await redis.exists(keys.line("live"), keys.line("bulk"), keys.later)) === 0,
    {
      what: "nothing waits",
    },
  );

const sent = ({ requests }: ScriptedService) =>
  requests
    .map((request) => `${String(crmCodeSent(request))} ${String(nameSent(request))}`)
    .map((text, n) => ({ text, batch: Math.floor(n / 10) }))
    .toSorted((a, b) => a.batch - b.batch || (a.text < b.text ? -1 : 1))
    .map(({ text }) => text);

const crmCodeSent = ({ decision }: { decision: Sendable }) =>
  decision.kind === "fetch" ? undefined : decision.body["crmCode"];

const nameSent = ({ decision }: { decision: Sendable }) =>
  decision.kind === "fetch" ? undefined : decision.body["firstName"];

it("an event that arrives right after its record was settled gets a run", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  const settle = runtime.staged.settle.bind(runtime.staged);
  vi.spyOn(runtime.staged, "settle").mockImplementationOnce(async (...how) => {
    const result = await settle(...how);
    await stage(runtime, "completing", "version 2");
    return result;
  });
  startLoop(runtime, service);
  await stage(runtime, "completing", "version 1");
  (await service.nth(1)).reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
});

it("a change that is sent again at once wakes the idle loop", async () => {
  const runtime = newRuntime();
  const { jobNotifier } = runtime;
  const wait = jobNotifier.wait.bind(jobNotifier);
  vi.spyOn(jobNotifier, "wait").mockImplementation((_ms, ...rest) => wait(3_600_000, ...rest));
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stage(runtime, "exists", "version 1");
  (await service.nth(1)).reply({ kind: "exists" });
  expect((await service.nth(2)).decision.kind).toBe("update");
});

it("a change that was under way when Redis went back is sent once more, not an older one alone", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { keys, line, redis, stateAge } = runtime;
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stateAge.count();
  await stage(runtime, "under-way", "version 2");
  const request = await service.nth(1);
  // The copy has neither the change nor the age that this process has met.
  await redis.del(keys.staged("under-way"), keys.later, stateAge.key);
  request.reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
  expect(await line.unsynced(["under-way"])).toEqual(["under-way"]);
});

it("the deletion of a relation that only a list has shown to be absent asks for it once; a creation does not", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { ledger, staged } = runtime;
  await listed(runtime, []);
  const service = new ScriptedService();
  startLoop(runtime, service);
  await staged.stage(stateOf("unlisted", "1", DELETED));
  const asked = await service.nth(1);
  expect(asked.decision.kind).toBe("fetch");
  asked.reply({ kind: "missing" });
  await settled(runtime);
  expect(await ledger.row("unlisted")).toMatchObject({ exists: false, orders: { status: "1" } });
  // As the sweep does once a day: the orders stay while they are young.
  expect(await ledger.forgetAbsent(Date.now() - 60_000)).toBe(0);
  expect((await staged.stage(stateOf("unlisted", "2", DELETED))).result).toBe(
    "nothing_to_terminate",
  );
  await stage(runtime, "new", "version 1");
  expect((await service.nth(2)).decision.kind).toBe("create");
});

it("the deletion of a relation that the list has left out ends it", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await listed(runtime, []);
  const service = new ScriptedService();
  startLoop(runtime, service);
  await runtime.staged.stage(stateOf("unlisted", "1", DELETED));
  const body = { type: "Person", crmCode: "unlisted", firstName: "Ada", lastName: "Muster" };
  (await service.nth(1)).reply({ kind: "found", body });
  expect((await service.nth(2)).decision).toMatchObject({
    kind: "update",
    body: { ...body, relationStatus: "terminated" },
  });
});

it("a change that was rejected drops no older one from a Redis that went back", async () => {
  const runtime = newRuntime();
  const { deadLetters, keys, line, redis, settledLately, staged } = runtime;
  const service = new ScriptedService();
  const sync = startSync(runtime, service.access());
  const common = { crmCode: "r", lane: "live", time: Date.now(), event: "{}" } as const;
  const fields = { payload: "{}", variant: "Person", status: "mapped" } as const;
  const stageAt = (order: string) =>
    staged.stage({ ...common, ...fields, order, eventKey: order, fingerprint: order });
  await stageAt("2");
  (await service.nth(1)).reply({ kind: "rejected", status: 400, error: "no" });
  await waitFor(async () => (await redis.exists(keys.line("live"), keys.later)) === 0, {
    what: "the change is rejected",
  });
  await sync.close();
  // The copy has the older state alone.
  await deadLetters.drop("c:r");
  await stageAt("1");
  expect(await settledLately.restore()).toBe(0);
  expect(await line.unsynced(["r"])).toEqual(["r"]);
});

it.each(["live", "bulk"] as const)(
  "a %s change whose key was deleted waits no more",
  async (lane) => {
    const runtime = newRuntime();
    const { keys, redis, staged } = runtime;
    const service = new ScriptedService();
    const state = { payload: "{}", fingerprint: "f", variant: "Person", status: "mapped" } as const;
    const common = { crmCode: "r", order: "1", eventKey: "1", time: Date.now(), event: "{}" };
    await staged.stage({ ...common, ...state, lane });
    await redis.del(keys.staged("r"));
    startLoop(runtime, service);
    await waitFor(async () => (await redis.exists(keys.line(lane), keys.later)) === 0, {
      what: "nothing waits",
    });
    expect(service.permitRequests).toBe(1);
    const lost = { lostChanges: 1, lostChange: hashOf("r") };
    expect(await takeReadings(runtime)).toMatchObject(lost);
    // The record is sent again.
    await staged.stage({ ...common, ...state, lane, order: "2", eventKey: "2" });
    expect(await takeReadings(runtime)).toMatchObject({ lostChanges: 0, lostChange: undefined });
  },
);

it("the retry of a live change does not wait for the permit of a bulk change", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "500" });
  const service = new ScriptedService();
  const access = service.access();
  const acquire: typeof access.quota.acquire = async (lane, signal) => {
    if (lane === "bulk") await noPermit(signal);
    return access.quota.acquire(lane, signal);
  };
  const sync = startSync(runtime, { ...access, quota: { ...access.quota, acquire } });
  closing.push(() => {
    service.end();
    return sync.close();
  });
  await stage(runtime, "import", "version 1", "bulk");
  await stage(runtime, "live", "version 1");
  const failed = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
  (await service.nth(1)).reply(failed);
  expect(nameSent(await service.nth(2))).toBe("version 1");
});

it("a permit for a live change that another process has taken is not spent on a bulk change", async () => {
  const runtime = newRuntime();
  const { keys, redis } = runtime;
  const service = new ScriptedService();
  const access = service.access();
  const lanes: Lane[] = [];
  const acquire: typeof access.quota.acquire = async (lane, signal) => {
    lanes.push(lane);
    if (lane === "bulk") await noPermit(signal);
    // Meanwhile the other process takes and settles it.
    await redis.del(keys.staged("live"), keys.line("live"));
    return access.quota.acquire(lane, signal);
  };
  await stage(runtime, "import", "version 1", "bulk");
  await stage(runtime, "live", "version 1");
  const sync = startSync(runtime, { ...access, quota: { ...access.quota, acquire } });
  closing.push(() => {
    service.end();
    return sync.close();
  });
  await waitFor(() => lanes.length === 2 || service.requests.length > 0, { what: "it goes on" });
  expect(lanes).toEqual(["live", "bulk"]);
  expect(service.requests.length).toBe(0);
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["import"]);
});

it("an event that arrives during a request gets a run after the request has ended", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stage(runtime, "active", "version 1");
  const first = await service.nth(1);
  await stage(runtime, "active", "version 2");
  expect(service.requests.length).toBe(1);
  first.reply({ kind: "created" });
  expect(nameSent(await service.nth(2))).toBe("version 2");
});

it("a worker that was frozen between taking a record and sending gives the record back", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  const take = runtime.staged.take.bind(runtime.staged);
  const now = performance.now.bind(performance);
  vi.spyOn(runtime.staged, "take").mockImplementationOnce(async (...what) => {
    const taken = await take(...what);
    vi.spyOn(performance, "now").mockImplementation(() => now() + 6000);
    return taken;
  });
  const settling = vi.spyOn(runtime.staged, "settle");
  startLoop(runtime, service);
  await stage(runtime, "slept", "version 1");
  await waitFor(() => settling.mock.calls.length > 0, { what: "the record is settled" });
  expect(settling.mock.calls[0]?.[1]).toMatchObject({ row: "before", finished: false });
  expect(nameSent(await service.nth(1))).toBe("version 1");
  expect(settling.mock.calls.length).toBe(1);
});

it("a change that cannot be opened ends no process, and waits for one with the key", async () => {
  const runtime = newRuntime();
  const { keys, redis } = runtime;
  const access = new ScriptedService().access();
  await stage(runtime, "sealed", "version 1");
  await editStaged(runtime, "sealed", ({ fields, ...staged }) => ({
    ...staged,
    fields: fields && { ...fields, payload: "eyJ, sealed with no key of ours" },
  }));
  const permit = await access.quota.acquire("live");
  expect(
    await runRelation("sealed", { permit, askedAt: Date.now() }, runtime, access),
  ).toBeUndefined();
  const [, due] = await redis.zrange(keys.later, "0", "0", "WITHSCORES");
  expect(Number(due)).toBeGreaterThan(Date.now() + 5000);
});

it("no record is taken without a permit", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const service = new ScriptedService();
  service.permits = 0;
  startLoop(runtime, service);
  await stage(runtime, "no permit", "version 1");
  await waitFor(() => service.permitRequests > 0, { what: "a permit is requested" });
  expect(await runtime.redis.exists(runtime.keys.later)).toBe(0);
  await stage(runtime, "no permit", "version 2");
  service.permits = 1;
  expect(nameSent(await service.nth(1))).toBe("version 2");
});

it("two workers at once: each record is sent by one of them, and the next state after it", async () => {
  const first = newRuntime({ RETRY_BASE_MS: "10" });
  const second = newRuntime({ RETRY_BASE_MS: "10", QUEUE_PREFIX: first.config.QUEUE_PREFIX });
  const service = new ScriptedService();
  const codes = Array.from({ length: 10 }, (_, n) => `r${n}`);
  for (const crmCode of codes) await stage(first, crmCode, "version 1");
  startLoop(first, service);
  startLoop(second, service);
  await service.nth(10);
  for (const crmCode of codes) await stage(second, crmCode, "version 2");
  expect(sent(service)).toEqual(codes.map((crmCode) => `${crmCode} version 1`));
  for (const request of service.requests.slice(0)) request.reply({ kind: "created" });
  await service.nth(20);
  expect(sent(service).slice(10)).toEqual(codes.map((crmCode) => `${crmCode} version 2`));
});

it("a record whose worker died is due again at the end of its hold, and its request counts as sent", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10", SERVICE_TIMEOUT_MS: "100" });
  const { keys, line, redis } = runtime;
  await stage(runtime, "killed", "version 1");
  expect(await line.next("live", 60_000)).toBe("killed");
  expect(await line.next("live", 60_000)).toBeUndefined();
  await takeFrom(runtime, "killed", "dead", 60_000);
  const [, due] = await redis.zrange(keys.later, "0", "0", "WITHSCORES");
  expect(Number(due)).toBeGreaterThan(Date.now() + 50_000);
  // Its hold ends.
  await passTime(runtime, "killed");
  const service = new ScriptedService();
  startLoop(runtime, service);
  const request = await service.nth(1);
  expect(request.decision).toMatchObject({ kind: "create" });
  request.reply({ kind: "created" });
  // The request of the dead worker may still arrive: the proof is verified.
  await waitFor(async () => (await line.unsynced(["killed"])).length === 0, { what: "it is sent" });
  expect(await redis.zrange(keys.later, "0", "-1")).toEqual(["killed"]);
});

it("a retry that is due goes before what came after it", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "300", SYNC_CONCURRENCY: "1" });
  const service = new ScriptedService();
  startLoop(runtime, service);
  await stage(runtime, "first", "version 1", "bulk");
  const failed = { kind: "unavailable", reason: "server_error", ambiguous: false } as const;
  const request = await service.nth(1);
  for (let n = 0; n < 20; n += 1) await stage(runtime, `later ${n}`, "version 1", "bulk");
  request.reply(failed);
  const second = await service.nth(2);
  // Its retry is due while this one is under way.
  await waitFor(async () => ((await runtime.staged.waiting(["first"]))[0]?.due ?? 0) < Date.now(), {
    what: "its retry is due",
  });
  second.reply({ kind: "created" });
  expect(crmCodeSent(await service.nth(3))).toBe("first");
});
