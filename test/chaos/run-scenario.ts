/** Runs one scenario and checks its result. */
import { setTimeout as delay } from "node:timers/promises";
import { createRandom, type Random } from "../../src/demo/random.ts";
import { waitFor } from "../support/wait-for.ts";
import { deliver } from "./deliver.ts";
import { findLost } from "./find-lost.ts";
import { createLoad, type LoadSize, type SentEvent } from "./load.ts";
import { FAULTS, type Fault, type FaultName } from "./faults.ts";
import { Environment, ONE, SPLIT } from "./environment.ts";

export interface Scenario {
  readonly faults: readonly FaultName[];
  readonly processes: "one" | "split";
  readonly load: LoadSize;
  /** How long events are sent and faults strike, ms. */
  readonly sendingMs: number;
}

export interface ScenarioResult {
  readonly seed: number;
  /** Records whose end state is not that of their newest event, in words. */
  readonly lost: readonly string[];
  /** Writes that replaced a version with an older one. */
  readonly stale: number;
  readonly overlaps: number;
  readonly own429: number;
  readonly requests: number;
  readonly netChanges: number;
  readonly events: number;
  readonly seconds: number;
}

export const isGood = ({ lost, stale, overlaps, own429 }: ScenarioResult): boolean =>
  lost.length + stale + overlaps + own429 === 0;

const BATCH = 100;

/** How long all changes may take to settle after the last fault, ms. */
const SETTLE_DEADLINE_MS = 180_000;

export async function runScenario(scenario: Scenario, seed: number): Promise<ScenarioResult> {
  const random = createRandom(seed);
  const load = createLoad(seed, scenario.load);
  await using environment = await Environment.start(scenario.processes === "one" ? ONE : SPLIT);
  const startedAt = performance.now();
  const over = new AbortController();
  const faults: Promise<void>[] = scenario.faults.map((name) => {
    const fault: Fault = FAULTS[name];
    return fault(environment, createRandom(random.whole(1, 1e9)), over.signal);
  });
  const sending = send(environment, load.events, scenario.sendingMs, random);
  await Promise.race([sending, Promise.all([sending, ...faults])]);
  over.abort();
  await Promise.all(faults);
  await waitFor(async () => (await environment.pending()) === 0, {
    what: `all changes are settled (seed ${seed})`,
    deadlineMs: SETTLE_DEADLINE_MS,
  }).catch(() => {}); // what is missing is reported as lost
  const { requests, overlaps } = environment.proxy.recording;
  // The service counts delayed requests later than their sender can know.
  const isLate = scenario.faults.includes("requests that arrive late");
  const own429 = isLate ? 0 : environment.proxy.recording.own429;
  const { changes, stale } = environment.service.history();
  return {
    seed,
    stale,
    overlaps,
    own429,
    requests,
    netChanges: changes,
    lost: await findLost(environment, load),
    events: load.events.length,
    seconds: (performance.now() - startedAt) / 1000,
  };
}

/** Sends evenly over the time, and each batch again until it is accepted. */
async function send(
  environment: Environment,
  events: readonly SentEvent[],
  sendingMs: number,
  random: Random,
): Promise<void> {
  const startedAt = performance.now();
  for (let next = 0; next < events.length; next += BATCH) {
    const batch = events.slice(next, next + BATCH);
    const dueIn = startedAt + (next / events.length) * sendingMs - performance.now();
    if (dueIn > 0) await delay(dueIn);
    await deliver(environment, random, batch);
  }
}
