/** `npm run chaos -- --minutes N --seed S`: every fault alone, then random combinations. */
import { Command, InvalidArgumentError } from "commander";
import { createRandom } from "../../src/demo/random.ts";
import { ownRedis } from "../support/own-redis.ts";
import { runReconcile } from "./reconcile.ts";
import { isGood, runScenario, type Scenario, type ScenarioResult } from "./run-scenario.ts";
import { alone, combined, LARGE, FAULT_NAMES } from "./scenarios.ts";

const number = (text: string): number => {
  if (!/^\d+(\.\d+)?$/.test(text)) throw new InvalidArgumentError("It must be a number.");
  return Number(text);
};

interface Options {
  readonly minutes: number;
  readonly seed: number;
  readonly large?: true;
  readonly only?: string;
  readonly reconcile?: number;
}

const COLUMNS = [9, 9, 8, 6, 8, 8, 6, 6, 8, 8] as const;
const row = (...cells: (string | number)[]): string =>
  cells.map((cell, n) => String(cell).padStart(COLUMNS[n] ?? 0)).join(" ");

function resultRow(result: ScenarioResult): string {
  const { events, requests, netChanges, seconds } = result;
  return row(
    result.seed,
    events,
    `${seconds.toFixed(0)} s`,
    result.lost.length,
    result.stale,
    result.overlaps,
    result.own429,
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
  for (const name of FAULT_NAMES) if (name.includes(only ?? "")) yield alone(name);
  const random = createRandom(seed);
  for (;;) yield combined(random);
}

/** A whole CRM against a whole service. @returns whether everything was found and repaired */
async function reconcile(relations: number, seed: number): Promise<boolean> {
  await using redis = await ownRedis();
  const { notFound, invented, wrong, ...figures } = await runReconcile({
    relations,
    seed,
    differences: 500,
    livePerSecond: 5,
    redisUrl: redis.url,
    prefix: "{chaos}",
  });
  for (const [title, list] of Object.entries({ "not found": notFound, invented, wrong })) {
    process.stdout.write(`${title}: ${list.length}\n`);
    for (const line of list.slice(0, 10)) process.stdout.write(`  ${line}\n`);
  }
  process.stdout.write(`${JSON.stringify(figures, undefined, 2)}\n`);
  return notFound.length + invented.length + wrong.length === 0;
}

async function main(options: Options): Promise<void> {
  if (options.reconcile !== undefined) {
    process.exitCode = (await reconcile(options.reconcile, options.seed)) ? 0 : 1;
    return;
  }
  const until = performance.now() + options.minutes * 60_000;
  const title = ["seed", "events", "time", "lost", "stale", "overlaps", "429", "requests"];
  process.stdout.write(`${row(...title, "changes", "per change")}\n`);
  let bad = 0;
  let count = 0;
  for (const scenario of scenarios(options, options.seed)) {
    if (count > 0 && performance.now() > until) break;
    const result = await runScenario(scenario, options.seed + count);
    count += 1;
    if (!isGood(result)) bad += 1;
    const names = scenario.faults.join(" + ");
    process.stdout.write(`${resultRow(result)}  ${isGood(result) ? "ok " : "BAD"}  ${names}\n`);
    for (const line of result.lost.slice(0, 10)) process.stdout.write(`  ${line}\n`);
  }
  process.stdout.write(
    bad === 0
      ? `${count} scenarios: nothing lost, nothing stale\n`
      : `${bad} of ${count} scenarios failed\n`,
  );
  process.exitCode = bad === 0 ? 0 : 1;
}

// process.exit(), unlike the default action of a signal, kills the child processes.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));

await new Command("chaos")
  .description("run real processes under faults: is anything lost, or overwritten by older data?")
  .option("--minutes <n>", "for how long; the current scenario is finished", number, 10)
  .option(
    "--seed <n>",
    "seed of the first scenario; the same seed gives the same scenarios",
    number,
    1,
  )
  .option("--only <text>", "of the single faults, run only those whose name contains this")
  .option(
    "--large",
    "only one scenario: 100,000 events of 2,000 records while processes are killed",
  )
  .option(
    "--reconcile <relations>",
    "instead: crmsync reconcile, 500 differences among so many relations, live changes, two kills",
    number,
  )
  .action(main)
  .parseAsync();
