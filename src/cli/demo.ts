import { Command, InvalidArgumentError } from "commander";
import { once } from "node:events";
import { renderAddresses } from "../demo/addresses.ts";
import { compressClock, Demo, explainClock } from "../demo/run-demo.ts";
import { startParts } from "../demo/components.ts";
import { painter, Screen } from "../demo/screen.ts";
import { findFaults, renderVerdict, verdictJson } from "../demo/verdict.ts";

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
      "show it at work: an invented CRM, a real Redis, the daemon and the service, for an hour that takes a minute",
    )
    .option("--seed <n>", "chance that makes the hour", whole(0, 2 ** 32 - 1), 1)
    .option("--clients <n>", "clients of the CRM", whole(1, 5000), 200)
    .option("--seconds <n>", "how long the hour takes", whole(5, 3600), 60)
    .option("--keep", "leave everything running at the end, until Ctrl-C")
    .option("--data-dir <dir>", "new directory to use and keep (default: a temporary one)")
    .option("--json", "print the result as one line of JSON")
    .addHelpText(
      "after",
      `
Progress goes to stderr, the verdict to stdout. Exit code 0 only if the service holds exactly what
the CRM holds. Redis is the one of REDIS_URL, else an own one.`,
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
    const parts = await startParts({ clock, dataDir: flags.dataDir, say }, stack);
    interrupted.throwIfAborted();
    say(`Redis, the service (${parts.service.url}) and the daemon (${parts.daemonUrl}) are up.`);
    say(`A CRM with ${flags.clients} clients begins its hour.`);
    const verdict = await new Demo(flags, parts, screen, interrupted).run();
    const equal = findFaults(verdict).length === 0;
    process.exitCode = equal ? 0 : 1;
    process.stdout.write(
      flags.json
        ? `${JSON.stringify(verdictJson(verdict))}\n`
        : `\n${renderVerdict(verdict, painter(process.stdout))}\n`,
    );
    if (!equal && !flags.dataDir) say("Run it with --data-dir DIR to keep the logs of its parts.");
    if (!flags.keep) return;
    say(renderAddresses(parts));
    await Promise.race([once(interrupted, "abort"), parts.failed]);
  } catch (error) {
    if (!interrupted.aborted) throw error;
    process.exitCode = interrupted.reason === "SIGINT" ? 130 : 143;
  } finally {
    screen.end();
  }
}

/** The first signal ends everything in order, the second one at once. */
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

function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`a whole number from ${min} to ${max} is needed`);
    }
    return value;
  };
}
