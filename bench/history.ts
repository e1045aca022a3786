/**
 * Part of the chapter "ingest": what the history of records costs intake. Two daemons on one Redis, one
 * with and one without a history, take turns: what slows the machine down meanwhile strikes both.
 */
import { Agent } from "node:http";
import { startDaemon, type DaemonProcess } from "../test/support/crmsync.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { BATCH, changeOf, INTAKE_DEADLINE_MS, post } from "./ingest.ts";
import type { Table } from "./table.ts";

/** Each pair of turns is one comparison; their median is not moved by one disturbed turn. */
const PAIRS = 9;
const EVENTS = 10_000;

export async function runHistory(redisUrl: string): Promise<Table> {
  const start = (days: string) =>
    startDaemon(
      {
        REDIS_URL: redisUrl,
        QUEUE_PREFIX: `{bench-${process.pid}-${Date.now()}-${days}}`,
        HISTORY_DAYS: days,
      },
      ["--roles", "http,intake"],
    );
  await using without = await start("0");
  await using withHistory = await start("30");
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  try {
    await Promise.all([without, withHistory].map((daemon) => warmUp(daemon, agent)));
    const costs: number[] = [];
    const all = { without: [] as number[], with: [] as number[] };
    for (let pair = 0; pair < PAIRS; pair += 1) {
      // The order changes, so that neither always comes after the other.
      const isFirst = pair % 2 === 0;
      const first = await turn(isFirst ? without : withHistory, agent);
      const second = await turn(isFirst ? withHistory : without, agent);
      const [base, noted] = isFirst ? [first, second] : [second, first];
      all.without.push(base);
      all.with.push(noted);
      costs.push(100 * (1 - noted / base));
    }
    const row = (what: string, measured: number, target: number | string) => ({
      what,
      measured: Number(measured.toFixed(1)),
      target,
    });
    return {
      title: "Intake with and without the history of records",
      rows: [
        row("events/s processed without, median", median(all.without), ""),
        row("events/s processed with, median", median(all.with), ""),
        row(`cost of the history, median of ${PAIRS} pairs, %`, median(costs), 10),
      ],
    };
  } finally {
    agent.destroy();
  }
}

/** The first turn is slower: it is not measured. */
async function warmUp(daemon: DaemonProcess, agent: Agent): Promise<void> {
  await turn(daemon, agent);
}

/** Sends events, and waits until intake has processed them. @returns events per second */
async function turn(daemon: DaemonProcess, agent: Agent): Promise<number> {
  const before = await processed(daemon);
  const started = performance.now();
  for (let sent = 0; sent < EVENTS; sent += BATCH) {
    await post(
      daemon.url,
      agent,
      Array.from({ length: BATCH }, (_, n) => changeOf(sent + n)),
    );
  }
  await waitFor(async () => (await processed(daemon)) >= before + EVENTS, {
    deadlineMs: INTAKE_DEADLINE_MS,
    what: "all are processed",
  });
  return EVENTS / ((performance.now() - started) / 1000);
}

/** Nothing was counted before the first event. */
const processed = (daemon: DaemonProcess): Promise<number> =>
  daemon.metric("crmsync_events_received_total").catch(() => 0);

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
