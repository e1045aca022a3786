import { expect, it, onTestFinished, vi } from "vitest";
import { Permit } from "../../../src/quota/permit.ts";
import type { ServiceAccess } from "../../../workers/service-access.ts";
import type { Runtime } from "../../../workers/runtime.ts";
import { startSweep } from "../../../workers/sweep.ts";
import { startSync } from "../../../workers/sync.ts";
import { keepTenantLists } from "../../../workers/tenant-lists.ts";
import { keepLedgerWarm } from "../../../workers/warm-up.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
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
  const sweep = startSweep(runtime);
  onTestFinished(() => sweep.close());
  await waitFor(async () => (await redis.hlen(keys.deadLetters)) === 1, { what: "a dead letter" });
  await waitFor(async () => (await redis.llen(key("active"))) === 0, { what: "the job is gone" });
  expect({ stores, jobs }).toEqual({ stores: 2, jobs: 2 });
});

const HELD_BACK = {
  paused: {
    hold: ({ pointers }: Runtime) => pointers.queue.pause(),
    release: ({ pointers }: Runtime) => pointers.queue.resume(),
  },
  "limited to a rate": {
    hold: async ({ pointers, redis }: Runtime) => {
      await pointers.queue.setGlobalRateLimit(1, 3_600_000);
      // The one of this hour is gone.
      await redis.set(pointers.queue.toKey("limiter"), 1, "EX", 3600);
    },
    release: ({ pointers }: Runtime) => pointers.queue.removeGlobalRateLimit(),
  },
};

it.each(Object.entries(HELD_BACK))(
  "a queue that is %s: the loop asks for a permit now and then, and continues by itself",
  async (_, { hold, release }) => {
    const runtime = newRuntime();
    const { jobNotifier, pointers } = runtime;
    let permits = 0;
    const access = {
      isReady: async () => true,
      mayTry: async () => true,
      unfitForTry: async () => new Set<string>(),
      requestOf: () => undefined,
      quota: {
        acquire: async (lane: "live" | "bulk") => {
          permits += 1;
          return new Permit(lane, {
            fresh: () => true,
            sending() {},
            cancelled() {},
            unsent() {},
            answered: async () => {},
          });
        },
      },
    } as unknown as ServiceAccess;
    await hold(runtime);
    await pointers.add([{ crmCode: "4711", lane: "live" }]);
    const pauses = vi.spyOn(jobNotifier, "pause");
    const sync = startSync(runtime, access);
    onTestFinished(() => sync.close());
    await waitFor(() => pauses.mock.calls.length === 3, { deadlineMs: 10_000, what: "it pauses" });
    expect(permits).toBe(3);
    await release(runtime);
    // Nothing is staged for it: the job only ends.
    await waitFor(async () => (await pointers.queue.getJobCountByTypes()) === 0, {
      what: "it runs",
    });
  },
);

it("the warm-up keeps its lock while it waits for a permit", async () => {
  const runtime = newRuntime();
  const { keys, ledger, redis } = runtime;
  const waiting = Promise.withResolvers<void>();
  const access = {
    mayAsk: async () => true,
    client: {
      async *list() {
        await waiting.promise;
        yield { kind: "throttled" };
      },
    },
  } as unknown as ServiceAccess;
  const warming = keepLedgerWarm(runtime, access);
  onTestFinished(async () => {
    waiting.resolve();
    await warming.close();
  });
  const left = () => redis.pttl(keys.warmUpOwner);
  await waitFor(async () => (await left()) > 0, { what: "the lock" });
  await waitFor(grows(left), { what: "the lock is renewed" });
  expect(await ledger.claimWarmUp("somebody else")).toBe(false);
});

it("a job of somebody else in the queue is removed, and costs no request", async () => {
  const runtime = newRuntime();
  const { pointers } = runtime;
  await pointers.queue.add("other", { hello: 1 } as never);
  const service = new ScriptedService();
  const sync = startSync(runtime, service.access());
  onTestFinished(() => sync.close());
  await waitFor(async () => (await pointers.queue.getJobCountByTypes()) === 0, {
    what: "the job is gone",
  });
  expect(service.requests).toHaveLength(0);
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
  const keeping = keepTenantLists(runtime, access);
  onTestFinished(() => keeping.close());
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
