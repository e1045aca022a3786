/** Runs office days on real processes, hour by hour, and measures what must not grow. */
import { setTimeout as delay } from "node:timers/promises";
import { createRandom, type Random } from "../../src/demo/random.ts";
import { deliver } from "../chaos/deliver.ts";
import { Environment } from "../chaos/environment.ts";
import { findLost } from "../chaos/find-lost.ts";
import { createLoad, type SentEvent } from "../chaos/load.ts";
import { waitFor } from "../support/wait-for.ts";
import { sample, summarise, type Measured } from "./measure.ts";
import { eventsOfHour, faultOfHour } from "./office-days.ts";

export interface SoakOptions {
  readonly hours: number;
  /** Length of an hour, ms. */
  readonly hourMs: number;
  readonly seed: number;
  onHour(measured: Measured): void;
}

export interface SoakResult {
  readonly measured: readonly Measured[];
  readonly lost: readonly string[];
  readonly stale: number;
  readonly overlaps: number;
  readonly own429: number;
  readonly requests: number;
  readonly netChanges: number;
  readonly events: number;
}

/** The first process is never restarted. */
const PROCESSES = ["http,intake,sync", "intake,sync"];

const RECORDS = 1500;

/** Sets of events per hour, and measurements. */
const SLICES = 20;

/** A fault ends after this part of its hour: the rest shows that all is well again. */
const FAULTY = 0.5;

const SETTLE_DEADLINE_MS = 300_000;

export async function runSoak(options: SoakOptions): Promise<SoakResult> {
  const { hourMs, hours, seed } = options;
  const counts = Array.from({ length: hours }, (_, hour) => eventsOfHour(hour));
  const load = createLoad(seed, { records: RECORDS, events: counts.reduce((a, b) => a + b) });
  const limits = { perHour: 1000, hourMs, burst: 20, burstMs: hourMs / 100 };
  await using environment = await Environment.start(PROCESSES, limits);
  const random = createRandom(seed);
  const measured: Measured[] = [];
  const perHour = load.events.length / hours;
  const share = perHour / (counts.reduce((a, b) => a + b) / hours);
  let sent = 0;
  for (const [hour, count] of counts.entries()) {
    const until = hour === hours - 1 ? load.events.length : sent + Math.round(count * share);
    const events = load.events.slice(sent, until);
    sent = until;
    const seen = await runHour(environment, { hour, hourMs, events, random });
    if (seen === undefined) continue;
    measured.push(seen);
    options.onHour(seen);
  }
  await waitFor(async () => (await environment.pending()) === 0, {
    what: "all changes are settled",
    deadlineMs: SETTLE_DEADLINE_MS,
  }).catch(() => {}); // what is missing is reported as lost
  const { requests, overlaps, own429 } = environment.proxy.recording;
  const { changes, stale } = environment.service.history();
  const lost = await findLost(environment, load);
  const events = load.events.length;
  return { measured, lost, stale, overlaps, own429, requests, netChanges: changes, events };
}

interface Hour {
  readonly hour: number;
  readonly hourMs: number;
  readonly events: readonly SentEvent[];
  readonly random: Random;
}

async function runHour(
  environment: Environment,
  { events, hour, hourMs, random }: Hour,
): Promise<Measured | undefined> {
  const startedAt = performance.now();
  const over = new AbortController();
  const fault = faultOfHour(hour)?.(environment, createRandom(random.whole(1, 1e9)), over.signal);
  const samples = [];
  for (let slice = 0; slice < SLICES; slice += 1) {
    if (slice >= SLICES * FAULTY) over.abort();
    const from = Math.round((slice / SLICES) * events.length);
    const batch = events.slice(from, Math.round(((slice + 1) / SLICES) * events.length));
    if (batch.length > 0) await deliver(environment, random, batch);
    const taken = await sample(environment, hourMs).catch(() => undefined);
    if (taken !== undefined) samples.push(taken);
    const dueIn = startedAt + ((slice + 1) / SLICES) * hourMs - performance.now();
    if (dueIn > 0) await delay(dueIn);
  }
  await fault;
  return summarise(hour, events.length, samples);
}
