import { rmSync } from "node:fs";
import { FlowProducer, type Queue } from "bullmq";
import { Redis } from "ioredis";
import { Registry } from "prom-client";
import { expect, inject, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { checkProcesses } from "../../../src/operate/doctor/processes.ts";
import { waitingIn, stopsIn } from "../../../src/operate/status/stops.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import { createGauges } from "../../../src/operate/status/gauges.ts";
import { QUEUE_STATES } from "../../../src/operate/status/queue-reading.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { statusLines } from "../../../src/operate/status/status-text.ts";
import { statusOf } from "../../../src/operate/status/status.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import type { Lane } from "../../../src/core/event/lane.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { personEvent } from "../../support/person-event.ts";
import { slowNetwork } from "../../support/slow-network.ts";
import { stateOf, takeFrom } from "../../support/stores-of.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

async function storesAt(url: string): Promise<Stores> {
  const config = readConfig({ QUEUE_PREFIX: uniquePrefix(), REDIS_URL: url });
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  const stores = openStores(config, redis);
  onTestFinished(async () => {
    redis.disconnect();
    await stores.close();
  });
  await redis.ping();
  return stores;
}

const HOUR_MS = 3_600_000;
const saysOf = (findings: readonly { readonly says: string }[]) => findings.map(({ says }) => says);

test("all readings come in one round trip, however far away Redis is", async () => {
  await using network = await slowNetwork(inject("redisUrl"));
  const stores = await storesAt(network.url);
  await takeReadings(stores); // the queues have been opened by then
  network.delayMs = 1000;
  const asked = performance.now();
  const { pingMs } = await takeReadings(stores);
  const tookMs = performance.now() - asked;
  expect(pingMs).toBeGreaterThan(1990);
  // A second one would take as long once more.
  expect(tookMs).toBeLessThan(1.95 * pingMs);
});

test.skipIf(process.platform !== "linux")(
  "the disk of DATA_DIR counts where Redis is the embedded one",
  async () => {
    const stores = await storesAt(inject("redisUrl"));
    // It has no free space.
    const config = { ...stores.config, REDIS_URL: undefined, DATA_DIR: "/proc" };
    expect(await takeReadings({ ...stores, config })).toMatchObject({
      dataDirMib: 0,
      isRedisDirGone: true,
    });
    const elsewhere = { ...config, REDIS_URL: inject("redisUrl") };
    const { dataDirMib, isRedisDirGone } = await takeReadings({ ...stores, config: elsewhere });
    expect([dataDirMib, isRedisDirGone]).toEqual([undefined, false]);
  },
);

test("a key that another program has overwritten is named", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const { keys, redis } = stores;
  // Read by a command, and by a script that makes the name from another one.
  for (const [key, named] of [
    [keys.sources, keys.sources],
    [keys.deadTime, `${keys.deadLetters}, or a key that begins so`],
  ] as const) {
    await redis.set(key, "theirs");
    await expect(takeReadings(stores), key).rejects.toMatchObject({
      name: "ReplyError",
      message: expect.stringContaining(`: ${named}`) as string,
    });
    await redis.del(key);
  }
});

test("queues are read as BullMQ itself reads them", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const { inbox, redis, thinEvents } = stores;
  const at = Date.now() - 90_000;
  await inbox.queue.add("event", personEvent("1"), { timestamp: at });
  await inbox.queue.add("event", personEvent("2"), { delay: 60_000 });
  await inbox.queue.add("event", personEvent("3"), { priority: 5 });
  await thinEvents.queue.pause();
  await thinEvents.queue.setGlobalConcurrency(2);
  await inbox.queue.setGlobalRateLimit(3, 60_000);
  const readings = await takeReadings(stores);
  // BullMQ 6 itself counts the state `paused` of older ones nowhere.
  const known = QUEUE_STATES.filter((state) => state !== "paused");
  expect(readings.inboxJobs).toEqual({
    ...(await inbox.queue.getJobCounts(...known)),
    paused: 0,
  });
  expect(readings.inboxJobs).toMatchObject({ wait: 1, delayed: 1, prioritized: 1 });
  expect(readings.oldest.live).toBe(at);
  expect(readings.paused).toEqual(["fetch"]);
  expect(readings.limited).toEqual(["crm-events to 3 in 60 s", "fetch to 2 at once"]);
  expect(saysOf(findingsIn(readings, HOUR_MS))).toContain(
    "Somebody has limited the queue crm-events to 3 in 60 s and fetch to 2 at once through BullMQ; crmsync itself never does.",
  );
  const [seconds] = await redis.time();
  expect(Math.abs(readings.now - Number(seconds) * 1000)).toBeLessThan(5000);
});

test("a job without a timestamp, of another client, hides no other one", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const { queue } = stores.inbox;
  await queue.add("event", personEvent("1"), { timestamp: 1000 });
  await stores.redis.lpush(queue.toKey("active"), "foreign");
  const { inboxJobs, oldest } = await takeReadings(stores);
  expect(inboxJobs).toMatchObject({ wait: 1, active: 1 });
  expect(oldest.live).toBe(1000);
});

test("events are counted that older BullMQ clients and flows keep from being taken", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const { queue } = stores.inbox;
  const flow = new FlowProducer({ connection: stores.redis, prefix: queue.opts.prefix ?? "" });
  await queue.add("event", personEvent("1"), { timestamp: 2000 });
  // As `pause` of BullMQ 5 does.
  await stores.redis.rename(queue.toKey("wait"), queue.toKey("paused"));
  expect(await takeReadings(stores)).toMatchObject({
    inboxJobs: { wait: 0, paused: 1 },
    oldest: { live: 2000 },
  });
  await flow.add({
    name: "event",
    queueName: queue.name,
    data: personEvent("2"),
    opts: { timestamp: 1000 },
    children: [{ name: "never done", queueName: "elsewhere" }],
  });
  const readings = await takeReadings(stores);
  expect(readings).toMatchObject({
    inboxJobs: { paused: 1, "waiting-children": 1 },
    oldest: { live: 1000 },
  });
  expect(waitingIn(readings)).toBe(2);
  await flow.close();
});

test("the last retry of each lane is known, however many of the other one wait for longer", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const retry = async (crmCode: string, lane: Lane, seconds: number) => {
    await stores.staged.stage(stateOf(crmCode, "1", { lane }));
    const state = await takeFrom(stores, crmCode);
    const retryAt = Date.now() + seconds * 1000;
    await stores.staged.settle(state, { row: "before", finished: false, retryAt });
    return retryAt;
  };
  expect((await takeReadings(stores)).lastRetryAt).toEqual({ live: 0, bulk: 0 });
  const first = await retry("b1", "bulk", 50);
  expect((await takeReadings(stores)).firstDueAt).toEqual({ live: Infinity, bulk: first });
  const bulk = await retry("b2", "bulk", 100);
  for (let n = 0; n < 30; n += 1) await retry(`r${n}`, "live", 1000 + n);
  const live = await retry("last", "live", 2000);
  expect((await takeReadings(stores)).lastRetryAt).toEqual({ live, bulk });
});

test("what stands in the line is told: due, taken, and later", async () => {
  const stores = await storesAt(inject("redisUrl"));
  for (const crmCode of ["due", "taken", "later"]) await stores.staged.stage(stateOf(crmCode, "1"));
  await stores.staged.stage(stateOf("import", "1", { lane: "bulk" }));
  await takeFrom(stores, "taken");
  const failed = { row: "before", finished: false, retryAt: Date.now() + 60_000 } as const;
  await stores.staged.settle(await takeFrom(stores, "later"), failed);
  expect(await readOne(stores.redis, stores.line.counts())).toMatchObject({
    due: { live: 1, bulk: 1 },
    inFlight: 1,
    later: 1,
  });
});

test("the oldest event is found behind one that is due before it", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const { queue } = stores.inbox;
  await queue.add("event", personEvent("1"), { timestamp: 1000, delay: Date.now() + 60_000 });
  await queue.add("event", personEvent("2"), { timestamp: 2000, delay: Date.now() + 1000 });
  expect((await takeReadings(stores)).oldest.live).toBe(1000);
});

test("records that CRMs do not return are named from their jobs, by CRM", async () => {
  const stores = await storesAt(inject("redisUrl"));
  const queue = stores.thinEvents.queue as Queue;
  const { id } = await queue.add("fetch", { crm: "hubspot", subject: "s" }, { delay: 60_000 });
  expect((await takeReadings(stores)).fetchFailures).toEqual([]);
  await stores.redis.hset(queue.toKey(String(id)), "failedReason", "not returned (HTTP 401)");
  for (const subject of ["a", "b"]) {
    const job = await queue.add("fetch", { crm: "salesforce", subject }, { delay: 90_000 });
    await stores.redis.hset(queue.toKey(String(job.id)), "failedReason", "not (HTTP 500)");
  }
  const foreign = await queue.add("fetch", null, { delay: 90_000 });
  await stores.redis.hset(queue.toKey(String(foreign.id)), { failedReason: "x", data: "not json" });
  const readings = await takeReadings(stores);
  expect(readings.fetchFailures).toEqual([
    { crm: "hubspot", why: "HTTP 401", records: 1 },
    { crm: "salesforce", why: "HTTP 500", records: 2 },
  ]);
  expect(saysOf(findingsIn(readings, HOUR_MS)).join()).toMatch(
    /hubspot does not return 1 of .*HTTP 401.*salesforce does not return 2 of .*HTTP 500/,
  );
});

test("rewrites and saves that Redis could not carry out are found", async () => {
  await using own = await ownRedis();
  const stores = await storesAt(own.url);
  const [, dir = ""] = await own.client.config("GET", "dir");
  expect(saysOf(findingsIn(await takeReadings(stores), HOUR_MS)).join()).not.toMatch(/Redis: /);
  rmSync(dir, { recursive: true });
  await own.client.bgsave();
  await waitFor(async () => !(await takeReadings(stores)).redis.savesSucceed, {
    what: "the save has failed",
  });
  await own.client.bgrewriteaof().catch(() => {});
  await waitFor(async () => !(await takeReadings(stores)).redis.rewritesSucceed, {
    what: "the rewrite has failed",
  });
  const says = saysOf(findingsIn(await takeReadings(stores), HOUR_MS)).join("\n");
  expect(says).toMatch(/the last rewrite of its append-only file failed/);
  expect(says).toMatch(/its last RDB save failed/);
});

test("a full Redis is read, too", async () => {
  await using own = await ownRedis();
  const stores = await storesAt(own.url);
  await own.client.config("SET", "maxmemory", "1mb");
  const { redis, warmUp } = await takeReadings(stores);
  expect(redis.usedBytes).toBeGreaterThan(redis.limitBytes);
  expect(warmUp.state).toBe("new");
});

test("a replica is read, too, and is not taken for processes that have ended", async () => {
  await using primary = await ownRedis({ "repl-diskless-sync-delay": "0" });
  await using own = await ownRedis();
  const stores = await storesAt(own.url);
  const beat = { id: "host:1", version: "1", roles: ["sync"], startedAt: 0 };
  await stores.heartbeats.beat(beat);
  const before = await takeReadings(stores);
  expect(before.processes).toMatchObject([beat]);
  expect(Math.abs(before.now - (before.processes[0]?.seenAt ?? 0))).toBeLessThan(5000);
  await own.client.replicaof("127.0.0.1", new URL(primary.url).port);
  await waitFor(async () => (await takeReadings(stores)).processes.length === 0, {
    what: "the replica has the primary's data",
  });
  const readings = await takeReadings(stores);
  const says = saysOf(stopsIn(readings));
  expect(says[0]).toMatch(/^Redis rejects all writes: it is a replica/);
  expect(says.join()).not.toContain("No process");
  const status = statusOf(readings, stores.config, "1");
  const view = { paint: (_: string, text: string) => text, bars: false, peak: undefined };
  expect(statusLines(status, view)[0]).toContain("which processes run is not known");
  const checks = checkProcesses(readings, stores.config);
  expect(checks.find(({ says }) => says.startsWith("Redis rejects"))?.result).toBe("fail");
  expect(checks.map(({ name }) => name)).not.toContain("processes");
  // CrmsyncRoleMissing would fire.
  const registry = new Registry();
  createGauges(registry, "1")({ readings, pingMs: readings.pingMs });
  expect(await registry.metrics()).not.toMatch(/^crmsync_processes\{/m);
});
