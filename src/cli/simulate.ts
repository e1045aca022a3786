/** `crmsync simulate`: is the quota enough? Answered with past events, in virtual time. */
import { Command } from "commander";
import { readConfigWith, type Config } from "../config.ts";
import { UserError } from "../ops/user-error.ts";
import { EventLoad, type Load } from "../simulate/event-load.ts";
import { reportLines } from "../simulate/report-text.ts";
import { reportOf } from "../simulate/report.ts";
import { simulate, type Settings } from "../simulate/simulate.ts";
import { Choice } from "./choice.ts";
import { readEventLines } from "./event-lines.ts";
import { printEither } from "./output.ts";
import { openTextFile } from "./text-lines.ts";
import { wholeNumber } from "./whole-number.ts";

/** Time of a request unless --latency gives it, ms: for a service on the same continent. */
const LATENCY_MS = 80;

/** An event takes up to 740 bytes of memory; more than these would not fit into every heap. */
const MAX_EVENTS = 2_000_000;

interface SimulateOptions {
  readonly perHour?: number;
  readonly burst?: number;
  readonly pacing?: Config["QUOTA_PACING"];
  readonly latency: number;
  readonly keptFields?: true;
  readonly json?: true;
}

export function simulateCommand(): Command {
  return new Command("simulate")
    .description("replay past events in virtual time: requests, ages, hours of exhausted quota")
    .argument("<file>", "JSON lines as push takes them, each with its time; - for standard input")
    .option("--per-hour <n>", "requests in an hour, instead of QUOTA_PER_HOUR", wholeNumber(1))
    .option("--burst <n>", "requests in a burst, instead of QUOTA_BURST", wholeNumber(1))
    .addOption(new Choice("--pacing <pacing>", "instead of QUOTA_PACING", PACINGS))
    .option("--latency <ms>", "time that a request takes", wholeNumber(0), LATENCY_MS)
    .option("--kept-fields", "the mapping leaves fields to others: updates take two requests")
    .option("--json", "print the figures as JSON")
    .addHelpText("after", HELP)
    .action(run);
}

const PACINGS = ["auto", "burst", "steady"] as const;

const HELP = `
Sends nothing, and needs neither Redis nor the service. For example, would 2000 requests an hour be
enough for the events of last month?
  crmsync simulate events.ndjson --per-hour 2000

It uses the daemon's own pacing with the variables QUOTA_* and SYNC_CONCURRENCY. The lines may be in
any order: an event arrives when it happened. A record is the crmCode of a payload, otherwise the subject. A state that differs
from the last one costs one request, a deletion without fields two; the first event of a record
always costs one. With --kept-fields (the mapping says owned: false or fill: empty) each change
costs two, except a creation (crm.record.created). Not simulated: the mapping, retries, dead letters, listing, value lists.
Lines without a valid event are reported and left out, and the exit code is 1.`;

async function run(name: string, options: SimulateOptions): Promise<void> {
  const settings = settingsOf(readConfigWith(variablesOf(options)), options);
  const { load, invalid } = await readLoad(name);
  const report = reportOf(load, invalid, simulate(load.changes, settings), settings);
  printEither(options.json, report, reportLines(report).join("\n"));
  if (invalid > 0) process.exitCode = 1;
}

async function readLoad(name: string): Promise<{ load: Load; invalid: number }> {
  const file = await openTextFile(name);
  const source = name === "-" ? "standard input" : name;
  const events = new EventLoad();
  let valid = 0;
  const invalid = await readEventLines(file, {
    doing: "reading",
    // Events of the future are as good as past ones.
    now: () => Number.POSITIVE_INFINITY,
    take({ event }) {
      if (event.time === undefined) {
        return 'has no time: add when it happened, for example "time":"2026-01-12T08:00:00Z"';
      }
      valid += 1;
      if (valid > MAX_EVENTS) {
        throw new UserError(
          `${source} has more than ${MAX_EVENTS} events: simulate a part of them`,
        );
      }
      events.add(event, Date.parse(event.time.toUpperCase()));
      return undefined;
    },
  });
  if (valid === 0) throw new UserError(`${source} has no event that can be simulated`);
  return { load: events.load(), invalid };
}

const variablesOf = ({ burst, pacing, perHour }: SimulateOptions) => ({
  ...(perHour !== undefined && { QUOTA_PER_HOUR: String(perHour) }),
  ...(burst !== undefined && { QUOTA_BURST: String(burst) }),
  ...(pacing !== undefined && { QUOTA_PACING: pacing }),
});

const settingsOf = (config: Config, { keptFields, latency }: SimulateOptions): Settings => ({
  perHour: config.QUOTA_PER_HOUR,
  hourMs: config.QUOTA_HOUR_MS,
  burst: config.QUOTA_BURST,
  burstMs: config.QUOTA_BURST_MS,
  liveReserve: config.QUOTA_LIVE_RESERVE,
  steady: config.QUOTA_PACING === "steady",
  latencyMs: latency,
  concurrency: config.SYNC_CONCURRENCY,
  readsFirst: keptFields === true,
});
