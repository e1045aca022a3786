/** `npm run chaos -- --minutes N --seed S`: every trouble alone, then drawn together, for long. */
import { Command, InvalidArgumentError } from "commander";
import { createRandom } from "../../src/demo/random.ts";
import { isGood, play, type Scenario, type Verdict } from "./run-scenario.ts";
import { alone, combined, LARGE, TROUBLE_NAMES } from "./scenarios.ts";

const number = (text: string): number => {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new InvalidArgumentError("A number is needed.");
  return Number(text);
};

interface Options {
  readonly minutes: number;
  readonly seed: number;
  readonly large?: true;
  readonly only?: string;
}

const COLUMNS = [9, 9, 8, 6, 8, 8, 6, 6, 8, 8] as const;
const row = (...cells: (string | number)[]): string =>
  cells.map((cell, n) => String(cell).padStart(COLUMNS[n] ?? 0)).join(" ");

function told(verdict: Verdict): string {
  const { events, requests, netChanges, seconds } = verdict;
  return row(
    verdict.seed,
    events,
    `${seconds.toFixed(0)} s`,
    verdict.lost.length,
    verdict.stale,
    verdict.overlaps,
    verdict.own429,
    requests,
    netChanges,
    (requests / netChanges).toFixed(3),
  );
}

function* scenarios({ large, only }: Options, seed: number): Generator<Scenario> {
  if (large) {
    yield LARGE;
    return;
  }
  for (const name of TROUBLE_NAMES) if (name.includes(only ?? "")) yield alone(name);
  const random = createRandom(seed);
  for (;;) yield combined(random);
}

async function main(options: Options): Promise<void> {
  const until = performance.now() + options.minutes * 60_000;
  const title = ["seed", "events", "time", "lost", "stale", "overlaps", "429", "requests"];
  process.stdout.write(`${row(...title, "changes", "per change")}\n`);
  let bad = 0;
  let played = 0;
  for (const scenario of scenarios(options, options.seed)) {
    if (played > 0 && performance.now() > until) break;
    const verdict = await play(scenario, options.seed + played);
    played += 1;
    if (!isGood(verdict)) bad += 1;
    const names = scenario.troubles.join(" + ");
    process.stdout.write(`${told(verdict)}  ${isGood(verdict) ? "ok " : "BAD"}  ${names}\n`);
    for (const line of verdict.lost.slice(0, 10)) process.stdout.write(`  ${line}\n`);
  }
  process.stdout.write(
    bad === 0
      ? `${played} scenarios: nothing lost, nothing stale\n`
      : `${bad} of ${played} scenarios went wrong\n`,
  );
  process.exitCode = bad === 0 ? 0 : 1;
}

// An exit, unlike the end by a signal, takes the children along.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

await new Command("chaos")
  .description("real processes under named faults: is anything lost, or overwritten by older data?")
  .option("--minutes <n>", "for how long; the scenario under way is finished", number, 10)
  .option("--seed <n>", "of the first scenario; the same seed draws the same", number, 1)
  .option("--only <text>", "begin with the troubles whose name contains this")
  .option("--large", "100,000 events of 2,000 records while processes are killed, once")
  .action(main)
  .parseAsync();
