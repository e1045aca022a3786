/** `npm run soak -- --hours N`: office days on real processes; memory, handles, keys and lag stay flat. */
import { writeFileSync } from "node:fs";
import { Command, InvalidArgumentError } from "commander";
import { chartOf } from "./chart.ts";
import { growthOf, type Growth } from "./growth.ts";
import type { Measured } from "./measure.ts";
import { runSoak } from "./run-soak.ts";

interface Options {
  readonly hours: number;
  readonly hourSeconds: number;
  readonly seed: number;
  readonly chart?: string;
}

const number = (text: string): number => {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError("It must be a whole number from 1.");
  return Number(text);
};

const COLUMNS = ["hour", "events", "memory MB", "files", "keys", "Redis MB", "waiting h"] as const;
const row = (cells: readonly string[]): string =>
  `${cells.map((cell) => cell.padStart(10)).join("")}\n`;

const hourRow = ({ events, files, hour, keys, redis, rss, waiting }: Measured): string =>
  row([
    String(hour),
    String(events),
    rss.toFixed(1),
    String(files),
    String(keys),
    redis.toFixed(2),
    waiting.toFixed(2),
  ]);

const growthLine = ({ first, isFlat, last, metric }: Growth): string =>
  `${metric.padEnd(8)} first ${first.toFixed(2)}, last ${last.toFixed(2)}: ${isFlat ? "flat" : "GROWS"}\n`;

async function main({ chart, hourSeconds, hours, seed }: Options): Promise<void> {
  const print = (text: string) => process.stdout.write(text);
  print(`${hours} hours of ${hourSeconds} s, seed ${seed}\n${row(COLUMNS)}`);
  const result = await runSoak({
    hours,
    hourMs: hourSeconds * 1000,
    seed,
    onHour: (measured) => print(hourRow(measured)),
  });
  const { events, lost, measured, netChanges, overlaps, own429, requests, stale } = result;
  if (chart !== undefined) writeFileSync(chart, chartOf(measured));
  const growth = growthOf(measured);
  for (const metric of growth) print(growthLine(metric));
  for (const line of lost.slice(0, 20)) print(`  ${line}\n`);
  print(
    `${events} events, ${requests} requests for ${netChanges} net changes; ` +
      `lost ${lost.length}, stale ${stale}, overlaps ${overlaps}, answered 429 ${own429}\n`,
  );
  const isGood = lost.length + stale + overlaps + own429 === 0;
  process.exitCode = isGood && growth.every(({ isFlat }) => isFlat) ? 0 : 1;
}

// process.exit(), unlike the default action of a signal, kills the child processes.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

await new Command("soak")
  .description("run office days on real processes, with faults: does anything grow, or get lost?")
  .option("--hours <n>", "hours of the quota", number, 72)
  .option("--hour-seconds <n>", "how long an hour takes", number, 20)
  .option("--seed <n>", "the same seed gives the same events and faults", number, 1)
  .option("--chart <file>", "write a chart of the run, as SVG")
  .action(main)
  .parseAsync();
