import { expect, onTestFinished, test } from "vitest";
import { ownRedis } from "../../support/own-redis.ts";
import { openScene, SHORT, type Worst } from "../../integration/quota/support.ts";

/** After a crash slots may be missing for a while; there may never be too many. */
function exact(worst: Worst, limits: Worst): void {
  expect(worst.hour).toBeLessThanOrEqual(limits.hour);
  expect(worst.burst).toBeLessThanOrEqual(limits.burst);
}

test("Eight processes, jitter, and clocks two seconds apart: exact, and the hour is used up", async () => {
  const scene = await openScene(SHORT, { travelMs: () => Math.random() * 40 });
  await scene.start(8, (i) => ({ skewMs: i % 2 === 0 ? 1000 : -1000 }));
  await scene.arrived(2 * SHORT.perHour + 20);
  const [first = 0] = scene.receiver.arrivals;
  const inFirstHour = scene.receiver.arrivals.filter((at) => at < first + SHORT.hourMs).length;
  exact(scene.worst(), { hour: SHORT.perHour, burst: SHORT.burst });
  expect(inFirstHour).toBeGreaterThanOrEqual(0.995 * SHORT.perHour);
});

test("After an idle time twenty requests start at once", async () => {
  const limits = { ...SHORT, hourMs: 120_000, burstMs: 10_000 };
  const scene = await openScene(limits);
  await scene.start(3, () => ({ work: "waiting" }));
  await scene.change(Array.from({ length: 20 }, (_, i) => `record-${i}`));
  await scene.arrived(20);
  // None of them waited for a second window.
  const [first = 0] = scene.receiver.arrivals;
  expect((scene.receiver.arrivals[19] ?? Infinity) - first).toBeLessThan(limits.burstMs);
});

test("kill -9 of every process in mid-burst: the next ones wait for what was spent", async () => {
  const scene = await openScene(SHORT);
  const fleet = await scene.start(3);
  await scene.arrived(50);
  await Promise.all(fleet.map((spender) => spender.kill()));
  await scene.start(3);
  await scene.arrived(SHORT.perHour + 60);
  exact(scene.worst(), { hour: SHORT.perHour, burst: SHORT.burst });
});

test("kill -9 of one of three again and again: exact", async () => {
  const scene = await openScene(SHORT);
  let fleet = await scene.start(3);
  for (const count of [15, 40, 75, 110, 140]) {
    await scene.arrived(count);
    const [victim, ...rest] = fleet;
    await victim?.kill();
    fleet = [...rest, ...(await scene.start(1))];
  }
  await scene.arrived(1.5 * SHORT.perHour);
  exact(scene.worst(), { hour: SHORT.perHour, burst: SHORT.burst });
});

test("An event loop blocked for 15 s sends nothing late, and the process takes part again", async () => {
  const scene = await openScene({ ...SHORT, perHour: 300, hourMs: 20_000 });
  const [sleeper, other] = await scene.start(2);
  await scene.arrived(30);
  // Longer than a slot of the burst lasts without its process.
  sleeper?.send({ block: 15_000 });
  await scene.arrived(290);
  await other?.kill();
  await scene.arrived(340);
  exact(scene.worst(), { hour: 300, burst: 20 });
});

test("kill -9 of Redis with AOF: what was spent is remembered", async () => {
  const redis = await ownRedis();
  onTestFinished(async () => redis[Symbol.asyncDispose]());
  const scene = await openScene(SHORT, { redisUrl: redis.url });
  await scene.start(3);
  for (const count of [30, 90]) {
    await scene.arrived(count);
    await redis.kill();
    await redis.start();
  }
  await scene.arrived(SHORT.perHour + 60);
  exact(scene.worst(), { hour: SHORT.perHour, burst: SHORT.burst });
});

test.for(["fixed", "sliding"] as const)(
  "A service with %s windows never answers 429",
  async (policy) => {
    const scene = await openScene(SHORT, { policy });
    await scene.start(2);
    await scene.arrived(SHORT.perHour + 40);
    expect(scene.receiver.throttled()).toBe(0);
  },
);

test("A gateway holds bursts until their slots would have ended by themselves: exact, and no 429", async () => {
  // A slot of the burst ends by itself after 2.4 s, when its process has died.
  const limits = { ...SHORT, pacing: "burst" } as const;
  const scene = await openScene(limits, { heldMs: 3000, policy: "sliding" });
  await scene.start(2);
  await scene.arrived(2 * SHORT.burst);
  exact(scene.worst(), { hour: SHORT.perHour, burst: SHORT.burst });
  expect(scene.receiver.throttled()).toBe(0);
});

test("A service whose clock is slower by a thousandth answers no 429", async () => {
  // An hour of 20 s, and 20 ms more.
  const limits = { ...SHORT, perHour: 100, hourMs: 20_000, pacing: "burst" } as const;
  const scene = await openScene(limits, { policy: "sliding", slowerBy: 0.001 });
  await scene.start(2);
  await scene.arrived(2 * limits.perHour);
  expect(scene.receiver.throttled()).toBe(0);
  exact(scene.worst(), { hour: limits.perHour, burst: limits.burst });
});

test("Steady pacing never meets an empty bucket", async () => {
  const steady = { ...SHORT, pacing: "steady" } as const;
  const scene = await openScene(steady, { policy: "bucket", travelMs: () => Math.random() * 40 });
  await scene.start(2);
  await scene.arrived(1.5 * SHORT.perHour);
  expect(scene.receiver.throttled()).toBe(0);
});

test("A service with one bucket answers 429 to one moment's requests, and never again", async () => {
  // Two tokens a second: a busy machine empties the bucket, too.
  const limits = { ...SHORT, hourMs: 60_000 };
  const scene = await openScene(limits, { policy: "bucket" });
  await scene.start(2);
  await scene.arrived(2 * limits.burst + 5);
  const throttled = scene.receiver.throttled();
  expect(throttled).toBeGreaterThan(0);
  expect(throttled).toBeLessThanOrEqual(limits.burst);
  await scene.arrived(3 * limits.burst + 5);
  expect(scene.receiver.throttled()).toBe(throttled);
  expect(scene.heard).toContainEqual({ log: "quota.pacing_changed" });
});
