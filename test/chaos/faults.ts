/** The faults. Each strikes while events are sent, and leaves nothing broken at its end. */
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../src/demo/random.ts";
import { STORM_HEADER } from "./recording-proxy.ts";
import { SERVICE_TIMEOUT_MS, type Environment } from "./environment.ts";

export interface Fault {
  /** Runs until `over` is aborted; resolves when everything works again. */
  (environment: Environment, random: Random, over: AbortSignal): Promise<void>;
}

/**
 * Another process takes the frozen one's jobs when their locks have run out (SERVICE_TIMEOUT_MS +
 * 15 s) and one of its checks, 5 s apart, has seen it; the records' holds (+ 10 s) are past by then.
 */
const LONG_FREEZE_MS = SERVICE_TIMEOUT_MS + 24_000;

const pause = async (ms: number, over?: AbortSignal): Promise<void> =>
  delay(ms, undefined, over && { signal: over }).catch(() => {});

/** Calls `strike` after each random pause until `over` is aborted. */
async function repeat(
  [leastMs, mostMs]: readonly [number, number],
  random: Random,
  over: AbortSignal,
  strike: () => Promise<void>,
): Promise<void> {
  for (;;) {
    await pause(random.whole(leastMs, mostMs), over);
    if (over.aborted) return;
    await strike();
  }
}

/** A fault of the service that strikes a share of its requests. */
const always =
  (fault: Record<string, unknown>): Fault =>
  async (environment, random, over) => {
    const disarm = await environment.service.arm({ seed: random.whole(1, 1e9), ...fault });
    await pause(3_600_000, over);
    await disarm();
  };

/** A fault of the service that strikes all its requests, again and again for a while. */
const spells =
  (fault: Record<string, unknown>): Fault =>
  (environment, random, over) =>
    repeat([500, 3000], random, over, async () => {
      const disarm = await environment.service.arm({ probability: 1, ...fault });
      await pause(random.whole(500, 2000));
      await disarm();
    });

/** @param fault which headers of each 429 say how long to wait */
const storms =
  (fault: Record<string, unknown>): Fault =>
  (environment, random, over) =>
    repeat([500, 2000], random, over, async () => {
      const storm = { fault: "rate-limit", seconds: 1, times: 3, headers: { [STORM_HEADER]: "1" } };
      const disarm = await environment.service.arm({ ...storm, ...fault });
      await pause(random.whole(1000, 3000), over);
      await disarm();
    });

export const FAULTS = {
  "kill -9 of any process": (environment, random, over) =>
    repeat([1000, 4000], random, over, async () => {
      await random.pick(environment.daemons).restart("SIGKILL");
    }),
  "SIGTERM of any process": (environment, random, over) =>
    repeat([1000, 4000], random, over, async () => {
      await random.pick(environment.daemons).restart("SIGTERM");
    }),
  "kill -9 of all at once": (environment, random, over) =>
    repeat([3000, 6000], random, over, async () => {
      await Promise.all(environment.daemons.map((daemon) => daemon.restart("SIGKILL")));
    }),
  "frozen for longer than the lock": async (environment, random, over) => {
    const senders = environment.daemons.filter(({ roles }) => roles.includes("sync"));
    const frozen = random.pick(senders);
    await pause(random.whole(1000, 2000), over);
    frozen.signal("SIGSTOP");
    await pause(LONG_FREEZE_MS);
    frozen.signal("SIGCONT");
  },
  "short freezes of every process": (environment, random, over) =>
    repeat([300, 1500], random, over, async () => {
      const frozen = random.pick(environment.daemons);
      frozen.signal("SIGSTOP");
      await pause(random.whole(200, 1500));
      frozen.signal("SIGCONT");
    }),
  "Redis killed": (environment, random, over) =>
    repeat([2000, 4000], random, over, async () => {
      await environment.redis.kill();
      await pause(random.whole(200, 2000));
      await environment.redis.start();
    }),
  "Redis frozen": (environment, random, over) =>
    repeat([1000, 3000], random, over, async () => {
      environment.redis.signal("SIGSTOP");
      await pause(random.whole(500, 4000));
      environment.redis.signal("SIGCONT");
    }),
  "service killed": (environment, random, over) =>
    repeat([2000, 4000], random, over, async () => {
      await environment.service.kill();
      await pause(random.whole(100, 1000));
      await environment.service.restart();
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
  "no response before the commit": always({ fault: "hang", when: "before", probability: 0.03 }),
  "no response after the commit": always({ fault: "hang", when: "after", probability: 0.03 }),
  "truncated responses": always({ fault: "truncate", probability: 0.1 }),
  "requests that arrive late": async (environment, random, over) => {
    // Later than the sender waits, but before another write of the record may start.
    const latest = SERVICE_TIMEOUT_MS * 1.8;
    environment.proxy.lateness = () => (random.chance(0.2) ? random.whole(300, latest) : 0);
    await pause(3_600_000, over);
    environment.proxy.lateness = () => 0;
  },
  "storm of 429, seconds": storms({ retryAfter: "seconds" }),
  "storm of 429, date": storms({ retryAfter: "date", rateHeaders: false }),
  "storm of 429, only the reset": storms({ retryAfter: "none" }),
  "storm of 429, no header": storms({ retryAfter: "none", rateHeaders: false }),
  "401 and back": (environment, random, over) =>
    repeat([1500, 3000], random, over, () => environment.replaceToken()),
  "403 and back": spells({ fault: "blocked" }),
  "connections refused": (environment, random, over) =>
    repeat([1500, 3000], random, over, async () => {
      await environment.proxy.close();
      await pause(random.whole(500, 2500));
      await environment.proxy.open();
    }),
  "a name that does not resolve": async (environment, random, over) => {
    const nowhere = { HTTP_PROXY: "http://proxy.invalid:3128" };
    await Promise.all(environment.daemons.map((daemon) => daemon.restart("SIGTERM", nowhere)));
    await pause(random.whole(2000, 4000), over);
    await Promise.all(environment.daemons.map((daemon) => daemon.restart("SIGTERM")));
  },
} satisfies Record<string, Fault>;

export type FaultName = keyof typeof FAULTS;
