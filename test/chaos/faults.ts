/** What may go wrong, each for as long as events are sent; afterwards all is well again. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../src/demo/random.ts";
import { STORM_HEADER } from "./recording-proxy.ts";
import { SERVICE_TIMEOUT_MS, type World } from "./environment.ts";

export interface Trouble {
  /** Resolves, with everything in its place again, soon after `over` is aborted. */
  (world: World, random: Random, over: AbortSignal): Promise<void>;
}

/** Longer than a job is locked (SERVICE_TIMEOUT_MS + 15 s) and a record held (+ 10 s). */
const LONG_SLEEP_MS = SERVICE_TIMEOUT_MS + 17_000;

const pause = async (ms: number, over?: AbortSignal): Promise<void> =>
  delay(ms, undefined, over && { signal: over }).catch(() => {});

/** Every few seconds until all is over. */
async function often(
  [leastMs, mostMs]: readonly [number, number],
  random: Random,
  over: AbortSignal,
  work: () => Promise<void>,
): Promise<void> {
  for (;;) {
    await pause(random.whole(leastMs, mostMs), over);
    if (over.aborted) return;
    await work();
  }
}

/** Strikes now and then, all the time. */
const always =
  (fault: Record<string, unknown>): Trouble =>
  async (world, random, over) => {
    const disarm = await world.service.arm({ seed: random.whole(1, 1e9), ...fault });
    await pause(3_600_000, over);
    await disarm();
  };

/** Strikes everything, for a while. */
const spells =
  (fault: Record<string, unknown>): Trouble =>
  (world, random, over) =>
    often([500, 3000], random, over, async () => {
      const disarm = await world.service.arm({ probability: 1, ...fault });
      await pause(random.whole(500, 2000));
      await disarm();
    });

/** @param fault what each 429 brings to say how long to wait */
const storms =
  (fault: Record<string, unknown>): Trouble =>
  (world, random, over) =>
    often([500, 2000], random, over, async () => {
      const storm = { fault: "rate-limit", seconds: 1, times: 3, headers: { [STORM_HEADER]: "1" } };
      const disarm = await world.service.arm({ ...storm, ...fault });
      await pause(random.whole(1000, 3000), over);
      await disarm();
    });

export const TROUBLES = {
  "kill -9 of any process": (world, random, over) =>
    often([1000, 4000], random, over, async () => {
      await random.pick(world.daemons).restart("SIGKILL");
    }),
  "SIGTERM of any process": (world, random, over) =>
    often([1000, 4000], random, over, async () => {
      await random.pick(world.daemons).restart("SIGTERM");
    }),
  "kill -9 of all at once": (world, random, over) =>
    often([3000, 6000], random, over, async () => {
      await Promise.all(world.daemons.map((daemon) => daemon.restart("SIGKILL")));
    }),
  "asleep for longer than the lock": async (world, random, over) => {
    const sleepers = world.daemons.filter(({ roles }) => roles.includes("sync"));
    const sleeper = random.pick(sleepers);
    await pause(random.whole(1000, 2000), over);
    sleeper.signal("SIGSTOP");
    await pause(LONG_SLEEP_MS);
    sleeper.signal("SIGCONT");
  },
  "naps of every process": (world, random, over) =>
    often([300, 1500], random, over, async () => {
      const sleeper = random.pick(world.daemons);
      sleeper.signal("SIGSTOP");
      await pause(random.whole(200, 1500));
      sleeper.signal("SIGCONT");
    }),
  "Redis killed": (world, random, over) =>
    often([2000, 4000], random, over, async () => {
      await world.redis.kill();
      await pause(random.whole(200, 2000));
      await world.redis.up();
    }),
  "Redis asleep": (world, random, over) =>
    often([1000, 3000], random, over, async () => {
      world.redis.signal("SIGSTOP");
      await pause(random.whole(500, 4000));
      world.redis.signal("SIGCONT");
    }),
  "service killed": (world, random, over) =>
    often([2000, 4000], random, over, async () => {
      await world.service.kill();
      await pause(random.whole(100, 1000));
      await world.service.restart();
    }),
  "service slow": always({
    fault: "latency",
    ms: SERVICE_TIMEOUT_MS * 0.2,
    probability: 0.3,
    jitterMs: SERVICE_TIMEOUT_MS * 1.2,
  }),
  "500, JSON, before": always({ fault: "error", probability: 0.1 }),
  "502, HTML, after": always({
    fault: "error",
    status: 502,
    body: "html",
    when: "after",
    probability: 0.1,
  }),
  "503, empty": always({ fault: "error", status: 503, body: "empty", probability: 0.1 }),
  "reset before the commit": always({ fault: "reset", when: "before", probability: 0.1 }),
  "reset after the commit": always({ fault: "reset", when: "after", probability: 0.1 }),
  "silence before the commit": always({ fault: "hang", when: "before", probability: 0.03 }),
  "silence after the commit": always({ fault: "hang", when: "after", probability: 0.03 }),
  "truncated answers": always({ fault: "truncate", probability: 0.1 }),
  "requests that arrive late": async (world, random, over) => {
    // Later than their sender waits, but before anybody may write that record again.
    const latest = SERVICE_TIMEOUT_MS * 1.8;
    world.witness.lateness = () => (random.chance(0.2) ? random.whole(300, latest) : 0);
    await pause(3_600_000, over);
    world.witness.lateness = () => 0;
  },
  "storm of 429, seconds": storms({ retryAfter: "seconds" }),
  "storm of 429, date": storms({ retryAfter: "date", rateHeaders: false }),
  "storm of 429, only the reset": storms({ retryAfter: "none" }),
  "storm of 429, no header": storms({ retryAfter: "none", rateHeaders: false }),
  "401 and back": (world, random, over) =>
    often([1500, 3000], random, over, () => world.replaceToken()),
  "403 and back": spells({ fault: "blocked" }),
  "connections refused": (world, random, over) =>
    often([1500, 3000], random, over, async () => {
      await world.witness.close();
      await pause(random.whole(500, 2500));
      await world.witness.open();
    }),
  "a name that does not resolve": async (world, random, over) => {
    const nowhere = { SERVICE_BASE_URL: "http://service.invalid" };
    await Promise.all(world.daemons.map((daemon) => daemon.restart("SIGTERM", nowhere)));
    await pause(random.whole(2000, 4000), over);
    await Promise.all(world.daemons.map((daemon) => daemon.restart("SIGTERM")));
  },
} satisfies Record<string, Trouble>;

export type TroubleName = keyof typeof TROUBLES;
