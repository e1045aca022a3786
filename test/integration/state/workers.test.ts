import { expect, it, onTestFinished, vi } from "vitest";
import type { ServiceAccess } from "../../../workers/service-access.ts";
import { OF_LISTS } from "../../../workers/chore-table.ts";
import { keepTenantLists } from "../../../workers/tenant-lists.ts";
import { startChore, startChores, startServiceChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { grows, waitFor } from "../../support/wait-for.ts";

it("an unreadable job stays until its dead letter is stored", async () => {
  const runtime = newRuntime();
  const { deadLetters, inbox, keys, redis } = runtime;
  const key = (name: string) => inbox.queue.toKey(name);
  await redis.hset(key("77"), { name: "event", data: "not JSON", timestamp: 1, opts: "{}" });
  await redis.lpush(key("active"), "77");
  const store = deadLetters.store.bind(deadLetters);
  let stores = 0;
  let jobs = 0;
  // The process dies, or Redis is away, the first time.
  vi.spyOn(deadLetters, "store").mockImplementation(async (letter) => {
    jobs += await redis.llen(key("active"));
    stores += 1;
    if (stores === 1) throw new Error("Redis is away");
    return store(letter);
  });
  startChore(runtime, "sweep");
  await waitFor(async () => (await redis.hlen(keys.deadLetters)) === 1, { what: "a dead letter" });
  await waitFor(async () => (await redis.llen(key("active"))) === 0, { what: "the job is gone" });
  expect({ stores, jobs }).toEqual({ stores: 2, jobs: 2 });
});

it("the warm-up keeps its lock while it waits for a permit", async () => {
  const runtime = newRuntime();
  const { keys, ledger, redis } = runtime;
  const waiting = Promise.withResolvers<void>();
  const access = {
    mayAsk: async () => true,
    token: () => "token",
    quota: {
      async acquire() {
        await waiting.promise;
        return {};
      },
    },
    client: { listPage: async () => ({ kind: "throttled" }) },
  } as unknown as ServiceAccess;
  startServiceChore(runtime, "warm-up", access);
  onTestFinished(() => waiting.resolve());
  const left = () => redis.pttl(keys.warmUpOwner);
  await waitFor(async () => (await left()) > 0, { what: "the lock" });
  await waitFor(grows(left), { what: "the lock is renewed" });
  expect(await ledger.lease.claim("somebody else")).toBe(false);
});

it("value lists that cannot be fetched are requested more and more rarely", async () => {
  const runtime = newRuntime();
  const { clock, keys, redis, tenantLists } = runtime;
  const outdated = clock.now() - 2 * runtime.config.QUOTA_HOUR_MS;
  expect(await tenantLists.store({ fields: {} }, outdated)).toEqual([]);
  let requests = 0;
  const access = {
    mayAsk: async () => true,
    quota: { acquire: async () => ({}) },
    client: {
      async schemaConfig() {
        requests += 1;
        return { kind: "unavailable" };
      },
    },
  } as unknown as ServiceAccess;
  startChores(runtime, OF_LISTS, keepTenantLists(runtime, access));
  const pause = () => redis.pttl(keys.schemaConfigAsking);
  await waitFor(async () => requests === 1 && (await pause()) > 55_000, {
    what: "a minute's pause",
  });
  await redis.del(keys.schemaConfigAsking);
  await waitFor(async () => requests === 2 && (await pause()) > 115_000, { what: "two minutes" });
});

it("BullMQ's streams of events stay short", async () => {
  const { inbox, redis } = newRuntime();
  for (let batch = 0; batch < 4; batch += 1) {
    await inbox.push(Array.from({ length: 500 }, (_, n) => personEvent(`r${batch}-${n}`)));
  }
  expect(await redis.xlen(inbox.queue.toKey("events"))).toBeLessThan(500);
});
