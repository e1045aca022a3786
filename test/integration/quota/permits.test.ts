import { expect, inject, test } from "vitest";
import { SpentPermitError, StalePermitError, type Permit } from "../../../src/core/quota/permit.ts";
import { quotaKeys } from "../../../src/core/quota/sliding-log.ts";
import { quotaReading } from "../../../src/core/quota/quota.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { slowNetwork } from "../../support/slow-network.ts";
import { waitFor } from "../../support/wait-for.ts";
import { exchange, isGiven, openQuota, openRedis, openScene, SHORT, spend } from "./support.ts";

const LONG = { perHour: 50, hourMs: 60_000 };

test("A permit is spent once", async () => {
  const { quota } = await openQuota();
  const permit = await quota.acquire("live");
  await exchange(permit, 200);
  expect(() => permit.use()).toThrow(SpentPermitError);
  permit.cancel();
  expect((await quota.state()).remaining).toBe(SHORT.perHour - 1);
});

test("A cancelled permit gives its slots back at once", async () => {
  const { quota } = await openQuota({ ...LONG, burst: 2, burstMs: 60_000 });
  for (let i = 0; i < 10; i += 1) (await quota.acquire("live")).cancel();
  await waitFor(async () => (await quota.state()).remaining === 50, { what: "all slots" });
});

test("A request that never left costs a slot of the burst, none of the hour", async () => {
  const { quota } = await openQuota({ ...LONG, burst: 1, burstMs: 1000 });
  const permit = await quota.acquire("live");
  const started = performance.now();
  permit.use();
  await permit.done({});
  await waitFor(async () => (await quota.state()).remaining === 50, { what: "the hour's slot" });
  await quota.acquire("live");
  expect(performance.now() - started).toBeGreaterThan(950);
});

test("A permit that is too old cannot be spent", async () => {
  const { quota } = await openQuota({ burstMs: 400 });
  const permit = await quota.acquire("live");
  permit.use();
  // The process sleeps for longer than a permit may be held.
  for (const until = performance.now() + 900; performance.now() < until;);
  expect(() => permit.spend()).toThrow(StalePermitError);
});

test("An aborted wait leaves nothing behind", async () => {
  const { quota } = await openQuota({ ...LONG, perHour: 3 });
  await spend(quota, 3);
  const abort = new AbortController();
  const waiting = quota.acquire("live", abort.signal);
  expect(await isGiven(waiting.catch(() => new Promise<Permit>(() => {})))).toBe(false);
  abort.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
  await expect(quota.acquire("live", AbortSignal.abort(new Error("before")))).rejects.toThrow(
    "before",
  );
});

test("A turn that must wait takes no slot", async () => {
  // Ten turns at once, then one every 3.6 s.
  const { quota } = await openQuota({ perHour: 1000, hourMs: 3_600_000, pacing: "steady" });
  await spend(quota, 10);
  const abort = new AbortController();
  const waiting = quota.acquire("live", abort.signal);
  expect(await isGiven(waiting.catch(() => new Promise<Permit>(() => {})))).toBe(false);
  expect((await quota.state()).remaining).toBe(990);
  abort.abort(new Error("enough"));
  await expect(waiting).rejects.toThrow("enough");
});

test("While Redis rejects writes a permit fails, with no error left over; then permits are given", async () => {
  await using redis = await ownRedis();
  const { quota } = await openQuota({ perHour: 1000, hourMs: 3_600_000 }, undefined, redis.client);
  await spend(quota, 3);
  await redis.client.replicaof("127.0.0.1", "1");
  for (let tries = 0; tries < 20; tries += 1) {
    await expect(quota.acquire("live")).rejects.toThrow(/READONLY/);
  }
  await redis.client.call("REPLICAOF", "NO", "ONE");
  const isGivenAgain = () =>
    quota.acquire("live").then(
      () => true,
      () => false,
    );
  await waitFor(isGivenAgain, { what: "a permit" });
});

test("A process that starts while Redis rejects writes gives permits as soon as it accepts them", async () => {
  await using redis = await ownRedis();
  await redis.client.replicaof("127.0.0.1", "1");
  const opening = openQuota({}, undefined, redis.client);
  await waitFor(async () => /errorstat_READONLY/.test(await redis.client.info("errorstats")), {
    what: "a rejected write",
  });
  await redis.client.call("REPLICAOF", "NO", "ONE");
  const { quota } = await opening;
  await spend(quota, 1);
  expect((await quota.state()).remaining).toBe(SHORT.perHour - 1);
});

test("A command that starts while Redis rejects writes fails", async () => {
  await using redis = await ownRedis();
  await redis.client.replicaof("127.0.0.1", "1");
  await expect(openQuota({ setsLimits: false }, undefined, redis.client)).rejects.toThrow(
    /READONLY/,
  );
});

test("A permit whose connection to Redis is cut costs no slot for ever", async () => {
  await using network = await slowNetwork(inject("redisUrl"));
  const limits = { perHour: 5, hourMs: 60_000, burst: 2, burstMs: 1000 };
  const { quota, prefix } = await openQuota(limits, undefined, openRedis(network.url));
  const redis = openRedis();
  const { hour, burst } = quotaKeys(prefix);
  const counted = () => Promise.all([hour, burst].map((log) => redis.zcard(log)));
  for (let n = 0; n < 3; n += 1) {
    network.delayMs = 100;
    const acquiring = quota.acquire("live");
    await waitFor(async () => (await redis.zcard(hour)) === 1, {
      what: "Redis has the slots, and its reply is on the way",
    });
    network.cut();
    network.delayMs = 0;
    (await acquiring).cancel();
    await waitFor(async () => (await counted()).every((slots) => slots === 0), {
      what: "all slots are free again",
    });
  }
});

test("Redis went back to a state without the last requests: they stay counted", async () => {
  await using network = await slowNetwork(inject("redisUrl"));
  const limits = { perHour: 10, hourMs: 60_000, burst: 10, burstMs: 1000 };
  const { quota, prefix } = await openQuota(limits, undefined, openRedis(network.url));
  await spend(quota, 3);
  const redis = openRedis();
  const keysNow = () => redis.keys(`*${prefix.slice(1, -1)}*`);
  const dump = async (key: string) => [key, await redis.dumpBuffer(key)] as const;
  const older = await Promise.all((await keysNow()).map(dump));
  await spend(quota, 5);
  const { allReturnedAt } = await quota.state();
  await redis.del(await keysNow());
  for (const [key, value] of older) await redis.restore(key, 0, value, "REPLACE");
  network.cut();
  await waitFor(async () => (await quota.state()).remaining === 2, { what: "all are counted" });
  // Also if this process dies now.
  expect(Math.abs((await quota.state()).allReturnedAt - allReturnedAt)).toBeLessThan(200);
  await spend(quota, 2);
  const waiting = quota.acquire("live");
  waiting.catch(() => {}); // ends with the quota
  expect(await isGiven(waiting)).toBe(false);
});

test("Redis was emptied, and its connections stayed: what every process has sent stays counted", async () => {
  const limits = { perHour: 30, hourMs: 60_000, burst: 10, burstMs: 2000 };
  const { quota, prefix } = await openQuota(limits);
  const { quota: other } = await openQuota(limits, prefix);
  await spend(other, 5);
  const sent = await spend(quota, 5);
  const redis = openRedis();
  await redis.del(await redis.keys(`*${prefix.slice(1, -1)}*`));
  const [next = 0] = await spend(quota, 1);
  expect(next - (sent[0] ?? 0)).toBeGreaterThan(limits.burstMs);
  await spend(other, 1);
  expect((await quota.state()).remaining).toBe(limits.perHour - 12);
});

test("A live change overtakes bulk work that waits", async () => {
  const { quota } = await openQuota({ perHour: 3, hourMs: 1500, burst: 3, burstMs: 100 });
  await spend(quota, 3);
  const order: string[] = [];
  const waiting = (["bulk", "bulk", "live"] as const).map(async (lane) => {
    const permit = await quota.acquire(lane);
    order.push(permit.lane);
    await exchange(permit, 200);
  });
  await Promise.all(waiting);
  expect(order[0]).toBe("live");
});

test("Bulk work leaves the reserve to live changes", async () => {
  const { quota } = await openQuota({ ...LONG, perHour: 10, burst: 10, liveReserve: 4 });
  for (let i = 0; i < 6; i += 1) await exchange(await quota.acquire("bulk"), 200);
  const bulk = quota.acquire("bulk");
  bulk.catch(() => {}); // ends with the quota
  expect(await isGiven(bulk)).toBe(false);
  await spend(quota, 4);
  expect((await quota.state()).remaining).toBe(0);
});

test("Closing waits neither for spent slots nor for waiters", async () => {
  const { quota } = await openQuota({ ...LONG, perHour: 5, hourMs: 3_600_000 });
  await spend(quota, 5);
  const waiting = quota.acquire("live");
  const rejected = expect(waiting).rejects.toThrow("closed");
  await quota.disconnect();
  await rejected;
});

test("A process ends by itself while spent slots are counted", async () => {
  const scene = await openScene({ ...SHORT, hourMs: 600_000 });
  const [spender] = await scene.start(1);
  await scene.arrived(25);
  await spender?.stop();
});

test("A changed limit applies from the next start on, and spent requests stay counted", async () => {
  const before = await openQuota({ ...LONG, perHour: 20 });
  await spend(before.quota, 15);
  const smaller = await openQuota({ ...LONG, perHour: 16 }, before.prefix);
  expect(await smaller.quota.state()).toMatchObject({ limit: 16, remaining: 1 });
  // A process that still runs with the old setting obeys the new one too.
  expect(await before.quota.state()).toMatchObject({ limit: 16, remaining: 1 });
  await spend(before.quota, 1);
  const waiting = before.quota.acquire("live");
  waiting.catch(() => {});
  expect(await isGiven(waiting)).toBe(false);
  const larger = await openQuota({ ...LONG, perHour: 60 }, before.prefix);
  await waiting;
  expect((await larger.quota.state()).limit).toBe(60);
});

test("A command with another limit takes that of the daemon", async () => {
  const daemon = await openQuota({ ...LONG, perHour: 20 });
  const command = await openQuota({ ...LONG, perHour: 500, setsLimits: false }, daemon.prefix);
  expect((await command.quota.state()).limit).toBe(20);
  await spend(command.quota, 20);
  expect(await daemon.quota.state()).toMatchObject({ limit: 20, remaining: 0 });
  // Without a daemon before it, its own limit holds.
  const alone = await openQuota({ ...LONG, perHour: 500, setsLimits: false });
  expect((await alone.quota.state()).limit).toBe(500);
});

test("Custom limits: 5000 in an hour, 50 in a minute", async () => {
  const custom = { perHour: 5000, hourMs: 3_600_000, burst: 50, burstMs: 60_000 };
  const { quota } = await openQuota(custom);
  const times = await spend(quota, 50);
  // None of them waited for a second window.
  expect((times[49] ?? 0) - (times[0] ?? 0)).toBeLessThan(custom.burstMs);
  const next = quota.acquire("live");
  next.catch(() => {});
  expect(await isGiven(next)).toBe(false);
  // The waiter for the burst has no slot of the hour yet.
  expect(await quota.state()).toMatchObject({ limit: 5000, remaining: 4950 });
});

test("The requests of processes that are all gone return in the figures, too", async () => {
  const limits = { ...SHORT, hourMs: 3000, burstMs: 100 };
  const { quota, prefix } = await openQuota(limits);
  await spend(quota, 5);
  await quota.disconnect();
  const redis = openRedis();
  // As `crmsync status` reads it.
  const left = async () => {
    const state = await readOne(redis, quotaReading({ ...limits, prefix }));
    return state.remaining;
  };
  expect(await left()).toBe(SHORT.perHour - 5);
  await waitFor(async () => (await left()) === SHORT.perHour, { what: "all have returned" });
});

test("Every process reads the same limit, remaining requests, reset and forecast", async () => {
  const first = await openQuota({ ...LONG, burst: 40, liveReserve: 5 });
  const second = await openQuota({ ...LONG, burst: 40, liveReserve: 5 }, first.prefix);
  const [startedAt] = [Date.now(), await spend(first.quota, 30)];
  const [a, b] = await Promise.all([first.quota.state(), second.quota.state()]);
  expect({ ...a, drainedAt: 0 }).toEqual({ ...b, drainedAt: 0 });
  expect(a.remaining).toBe(20);
  for (const at of [a.resetAt, a.allReturnedAt]) {
    expect(at).toBeGreaterThan(startedAt + 58_000);
    expect(at).toBeLessThan(Date.now() + 61_000);
  }
  expect(a.drainedAt({ live: 0, bulk: 0 })).toBeLessThanOrEqual(Date.now());
  // Twenty at once; the next slots return after an hour.
  expect(a.drainedAt({ live: 40, bulk: 0 }) - Date.now()).toBeGreaterThan(50_000);
});
