import { describe, expect, inject, it, onTestFinished } from "vitest";
import { Redis } from "ioredis";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";
import { startPolling } from "../../../workers/poll.ts";
import { keepRest } from "../../../workers/keep-rest.ts";
import { Rest } from "../../../workers/rest.ts";
import { watchStateAge } from "../../../workers/state-age.ts";
import type { Runtime } from "../../../workers/runtime.ts";

const DAY_MS = 86_400_000;

/** A runtime whose process rests as soon as nothing waits, and looks at nothing by itself meanwhile. */
function resting(): Runtime {
  return { ...newRuntime(), rest: new Rest(0, 0) };
}

async function begun({ rest }: Runtime): Promise<void> {
  await waitFor(() => rest.isOn, { what: "the process rests" });
}

describe("the rest of a process", () => {
  it("begins when nothing waits, and never while something does", async () => {
    const runtime = resting();
    const { inbox, keys, pointers, redis, thinEvents } = runtime;
    const works: readonly (readonly [
      add: () => Promise<unknown>,
      remove: () => Promise<unknown>,
    ])[] = [
      ...["wait", "active", "paused"].flatMap((state) =>
        [inbox, pointers, thinEvents].map(({ queue }) => {
          const key = queue.toKey(state);
          return [() => redis.lpush(key, "1"), () => redis.del(key)] as const;
        }),
      ),
      ...["prioritized", "delayed"].flatMap((state) =>
        [inbox, pointers, thinEvents].map(({ queue }) => {
          const key = queue.toKey(state);
          return [() => redis.zadd(key, 1, "1"), () => redis.del(key)] as const;
        }),
      ),
      ...[keys.unsynced("live"), keys.unsynced("bulk"), keys.verify].map(
        (key) => [() => redis.zadd(key, 1, "4711"), () => redis.del(key)] as const,
      ),
    ];
    for (const [add, remove] of works) {
      await add();
      const looked = keepRest(runtime);
      // One look, and it is over.
      await looked.close();
      expect(runtime.rest.isOn).toBe(false);
      await remove();
    }
    const keeping = keepRest(runtime);
    await begun(runtime);
    await keeping.close();
  });

  it("ends with a job that any process adds, and lets waiting loops look at once", async () => {
    const runtime = resting();
    const keeping = keepRest(runtime);
    onTestFinished(() => keeping.close());
    await begun(runtime);
    const other = new Redis(inject("redisUrl"));
    onTestFinished(() => other.disconnect());
    const ended = new Promise((resolve) => {
      runtime.rest.onChange((isOn) => isOn || resolve("ended"));
    });
    const waited = runtime.jobNotifier.wait(DAY_MS, new AbortController().signal);
    await waitFor(
      async () => (await other.publish(runtime.keys.jobsAdded, "live")) > 0 && !runtime.rest.isOn,
      { what: "the message is heard" },
    );
    expect(await ended).toBe("ended");
    await waited;
  });

  it("does not believe what was looked at before it ended", async () => {
    const rest = new Rest(0);
    let looks = 0;
    const guard = startPolling({
      everyMs: DAY_MS,
      rest,
      async step() {
        looks += 1;
      },
    });
    rest.guard(guard);
    onTestFinished(() => guard.close());
    await waitFor(() => guard.hasLooked(DAY_MS), { what: "it has looked" });
    await rest.checked();
    expect(looks).toBe(1);
    rest.begin();
    rest.expectChange();
    await rest.checked();
    expect(looks).toBe(2);
  });

  it("makes pauses long, and its end makes them short again", async () => {
    const rest = new Rest(0);
    let rests = 0;
    let usual = 0;
    const resting = startPolling({
      everyMs: 1,
      rest,
      restMs: DAY_MS,
      step: async () => void (rests += 1),
    });
    const other = startPolling({ everyMs: 1, step: async () => void (usual += 1) });
    onTestFinished(async () => {
      await Promise.all([resting.close(), other.close()]);
    });
    rest.begin();
    await waitFor(() => usual > 5, { what: "the other polling goes on" });
    const [before, from] = [rests, usual];
    await waitFor(() => usual > from + 50, { what: "the other polling goes on" });
    expect(rests).toBe(before);
    rest.wake();
    await waitFor(() => rests > before + 5, { what: "the polling goes on" });
  });
});

describe("what is looked at before anything is staged or sent after a rest", () => {
  it("is looked at once more, and an error of it is thrown", async () => {
    const rest = new Rest(0, 0);
    let looks = 0;
    let error: Error | undefined;
    const looking = startPolling({
      everyMs: DAY_MS,
      async step() {
        looks += 1;
        if (error !== undefined) throw error;
      },
    });
    onTestFinished(() => looking.close());
    rest.guard(looking);
    await rest.checked();
    const before = looks;
    await rest.checked();
    expect(looks).toBe(before + 1);
    error = new Error("Redis is away");
    await expect(rest.checked()).rejects.toThrow("Redis is away");
  });

  it("notices a Redis that was restored from an older copy on the same connection", async () => {
    const runtime = resting();
    const { keys, redis, rest, stateAge } = runtime;
    for (let n = 0; n < 3; n += 1) await stateAge.count();
    const copy = await redis.hgetall(keys.age);
    await stateAge.count();
    await redis.hset(keys.ledger, "4711", JSON.stringify({ e: 1, s: 1 }));
    rest.begin();
    const watching = watchStateAge(runtime, new Set(["sync"]));
    onTestFinished(() => watching.close());
    await rest.checked();
    expect(await redis.hlen(keys.ledger)).toBe(1);
    await redis.hset(keys.age, copy);
    await rest.checked();
    expect(await redis.exists(keys.wentBackwards)).toBe(1);
    expect(await redis.hlen(keys.ledger)).toBe(0);
  });

  it("writes nothing while the age is as it was", async () => {
    const runtime = resting();
    const { keys, redis, rest, stateAge } = runtime;
    await stateAge.count();
    rest.begin();
    const watching = watchStateAge(runtime, new Set(["sync"]));
    onTestFinished(() => watching.close());
    const before = await redis.hget(keys.age, "number");
    await rest.checked();
    await rest.checked();
    expect(await redis.hget(keys.age, "number")).toBe(before);
  });
});
