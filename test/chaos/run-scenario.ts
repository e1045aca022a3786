/** Plays one scenario and judges it. */
import { setTimeout as delay } from "node:timers/promises";
import { createRandom, type Random } from "../../src/demo/random.ts";
import { deadIdOf } from "../../src/sync/dead-letter.ts";
import { waitFor } from "../support/wait-for.ts";
import { createLoad, type Load, type LoadSize, type SentEvent } from "./load.ts";
import { TROUBLES, type Trouble, type TroubleName } from "./faults.ts";
import { ONE, SPLIT, World } from "./environment.ts";

export interface Scenario {
  readonly troubles: readonly TroubleName[];
  readonly processes: "one" | "split";
  readonly load: LoadSize;
  /** For how long events are sent, and troubles happen, ms. */
  readonly sendingMs: number;
}

export interface Verdict {
  readonly seed: number;
  /** Records that did not end as their newest event says. */
  readonly lost: readonly string[];
  /** Writes after which the service had an older version than before. */
  readonly stale: number;
  readonly overlaps: number;
  readonly own429: number;
  readonly requests: number;
  readonly netChanges: number;
  readonly events: number;
  readonly seconds: number;
}

export const isGood = ({ lost, stale, overlaps, own429 }: Verdict): boolean =>
  lost.length + stale + overlaps + own429 === 0;

const BATCH = 100;

/** A share of the events comes through BullMQ, the rest through HTTP. */
const BY_BULLMQ = 0.3;

/** How long everything may take to come to rest once nothing goes wrong any more, ms. */
const REST_DEADLINE_MS = 180_000;

export async function play(scenario: Scenario, seed: number): Promise<Verdict> {
  const random = createRandom(seed);
  const load = createLoad(seed, scenario.load);
  await using world = await World.start(scenario.processes === "one" ? ONE : SPLIT);
  const startedAt = performance.now();
  const over = new AbortController();
  const troubles: Promise<void>[] = scenario.troubles.map((name) => {
    const trouble: Trouble = TROUBLES[name];
    return trouble(world, createRandom(random.whole(1, 1e9)), over.signal);
  });
  const sending = send(world, load.events, scenario.sendingMs, random);
  await Promise.race([sending, Promise.all([sending, ...troubles])]);
  over.abort();
  await Promise.all(troubles);
  await waitFor(async () => (await world.underWay()) === 0, {
    what: `everything comes to rest (seed ${seed})`,
    deadlineMs: REST_DEADLINE_MS,
  }).catch(() => {}); // what is missing is told as lost
  const { requests, overlaps } = world.witness.seen;
  // The service counts what the network delays long after its sender could still know of it.
  const isLate = scenario.troubles.includes("requests that arrive late");
  const own429 = isLate ? 0 : world.witness.seen.own429;
  const { changes, stale } = world.service.history();
  return {
    seed,
    stale,
    overlaps,
    own429,
    requests,
    netChanges: changes,
    lost: await faults(world, load),
    events: load.events.length,
    seconds: (performance.now() - startedAt) / 1000,
  };
}

/** As a CRM sends: evenly, and again until each batch is accepted. */
async function send(
  world: World,
  events: readonly SentEvent[],
  sendingMs: number,
  random: Random,
): Promise<void> {
  const startedAt = performance.now();
  for (let next = 0; next < events.length; next += BATCH) {
    const batch = events.slice(next, next + BATCH);
    const dueIn = startedAt + (next / events.length) * sendingMs - performance.now();
    if (dueIn > 0) await delay(dueIn);
    const byBullMq = random.chance(BY_BULLMQ);
    await waitFor(() => (byBullMq ? addJobs(world, batch) : post(world, random, batch)), {
      what: "a batch is accepted",
      deadlineMs: 120_000,
    });
  }
}

async function addJobs(world: World, batch: readonly SentEvent[]): Promise<boolean> {
  await world.inbox.addBulk(batch.map((data) => ({ name: "event", data })));
  return true;
}

async function post(world: World, random: Random, batch: readonly SentEvent[]): Promise<boolean> {
  const doors = world.daemons.filter(({ roles, running }) => roles.includes("http") && running);
  if (doors.length === 0) return false;
  const response = await random.pick(doors).running?.push(batch);
  return response?.status === 202;
}

/** What is not as the CRM's newest events say, in words. */
async function faults(world: World, { expected }: Load): Promise<string[]> {
  const found: string[] = [];
  const relations = new Map(world.service.relations().map((held) => [held.crmCode, held]));
  const letters = new Set(await world.deadLetters());
  for (const [code, wanted] of expected) {
    const held = relations.get(code);
    const dead = wanted === undefined || wanted.dead;
    if (letters.has(deadIdOf(code)) !== dead) {
      found.push(dead ? `${code}: no dead letter` : `${code}: a dead letter too many`);
    }
    const is = held === undefined ? "not there" : `${held.status} ${held.marker}`;
    if (wanted === undefined) {
      if (held !== undefined) found.push(`${code} is ${is}, not expected at all`);
    } else if (wanted.status === "terminated") {
      if (held?.status === "active") found.push(`${code} is ${is}, not terminated`);
    } else if (held?.status !== "active" || held.marker !== wanted.marker) {
      found.push(`${code} is ${is}, not active ${wanted.marker}`);
    }
  }
  return found;
}
