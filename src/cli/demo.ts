import { Command } from "commander";
import { once } from "node:events";
import { renderAddresses, startComponents } from "../demo/components.ts";
import { compressClock, runDemo, explainClock } from "../demo/run-demo.ts";
import { painter, Screen } from "../demo/screen.ts";
import { printEither } from "./output.ts";
import { wholeNumber } from "./arguments.ts";
import { findFailures, renderVerdict, verdictJson } from "../demo/verdict.ts";

interface DemoFlags {
  readonly seed: number;
  readonly clients: number;
  readonly seconds: number;
  readonly keep?: true;
  readonly dataDir?: string;
  readonly json?: true;
}

export function demoCommand(): Command {
  return new Command("demo")
    .description(
      "show crmsync at work: an invented CRM, a real Redis, the daemon and the service; an hour takes a minute",
    )
    .option("--seed <n>", "seed of the random hour", wholeNumber(0, 2 ** 32 - 1), 1)
    .option("--clients <n>", "number of clients in the CRM", wholeNumber(1, 5000), 200)
    .option("--seconds <n>", "how long the hour takes", wholeNumber(5, 3600), 60)
    .option("--keep", "keep everything running at the end, until Ctrl-C")
    .option(
      "--data-dir <dir>",
      "new directory for all data, which is kept (default: a temporary one)",
    )
    .option("--json", "print the result as one line of JSON")
    .addHelpText(
      "after",
      `
Progress goes to stderr, the verdict to stdout. The exit code is 0 only if the service holds exactly
what the CRM holds. Redis is the one of REDIS_URL, or one that the demo starts.`,
    )
    .action(demo);
}

async function demo(flags: DemoFlags): Promise<void> {
  const screen = new Screen(process.stderr);
  const interrupted = endOnSignals();
  await using stack = new AsyncDisposableStack();
  try {
    const clock = compressClock(flags.seconds);
    const say = (text: string): void => screen.say(text);
    say(explainClock(clock));
    const components = await startComponents({ clock, dataDir: flags.dataDir, say }, stack);
    interrupted.throwIfAborted();
    say(
      `Redis, the service (${components.service.url}) and the daemon (${components.daemonUrl}) are up.`,
    );
    say(`The hour of a CRM with ${flags.clients} clients begins.`);
    const verdict = await runDemo(flags, components, screen, interrupted);
    const equal = findFailures(verdict).length === 0;
    process.exitCode = equal ? 0 : 1;
    const text = `\n${renderVerdict(verdict, painter(process.stdout))}`;
    printEither(flags.json, verdictJson(verdict), text);
    if (!equal && !flags.dataDir)
      say("Run it again with --data-dir DIR to keep the logs of its components.");
    if (!flags.keep) return;
    say(renderAddresses(components));
    await Promise.race([once(interrupted, "abort"), components.failed]);
  } catch (error) {
    if (!interrupted.aborted) throw error;
    process.exitCode = interrupted.reason === "SIGINT" ? 130 : 143;
  } finally {
    screen.end();
  }
}

/** The first signal stops everything in order, the second one exits at once. */
function endOnSignals(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(1);
      controller.abort(signal);
    });
  }
  return controller.signal;
}
