import { clearScreenDown, moveCursor } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { styleText } from "node:util";
import { Command } from "commander";
import { openStores, type Stores } from "../operate/status/stores.ts";
import { REDIS_DEADLINE_MS } from "../operate/status/readings.ts";
import { readStatus, type Status } from "../operate/status/status.ts";
import { readStateConfig } from "../base/config.ts";
import { VERSION } from "../base/version.ts";
import { connectOnce } from "../base/connect-redis.ts";
import { patienceMs, within } from "../base/deadline.ts";
import { allPrintable } from "../base/printable.ts";
import { redisTrouble } from "../base/redis-trouble.ts";
import { statusLines, waitingIn, type View } from "../operate/status/status-text.ts";
import { UserError } from "../base/user-error.ts";
import { StateVersionError } from "../core/state/state-version.ts";
import { print, printJson, terminalColumns } from "./output.ts";

const WATCH_MS = 2000;

interface StatusOptions {
  readonly watch?: true;
  readonly json?: true;
}

export function statusCommand(): Command {
  return new Command("status")
    .description("show findings, backlog, quota, outcomes and dead letters")
    .option("--watch", "repeat until Ctrl-C")
    .option("--json", "print the JSON of GET /status; with --watch one line each time")
    .addHelpText(
      "after",
      `
Reads REDIS_URL, or else the Redis of the daemon that runs on DATA_DIR. Costs no request. Exit code: 1
when Redis does not answer within about 2 s, 78 when its state is of another release, else 0, also
with findings.`,
    )
    .action(show);
}

async function show(options: StatusOptions): Promise<void> {
  const config = readStateConfig();
  const stores = openStores(config, await connectOnce(config, patienceMs));
  try {
    await (options.watch
      ? watch(stores, options.json === true)
      : once(stores, options.json === true));
  } finally {
    // A queue that is not connected yet waits for Redis when it is closed.
    stores.redis.disconnect();
    await stores.close();
  }
}

/** @throws UserError when Redis does not answer in time, StateVersionError when its state is of another release. */
async function read(stores: Stores): Promise<Status> {
  try {
    const known = stores.stateVersion.check().then(() => readStatus(stores, VERSION));
    return await within(REDIS_DEADLINE_MS, known);
  } catch (error) {
    if (error instanceof StateVersionError) throw error;
    const { says, runbook } = redisTrouble(error);
    throw new UserError(`the state is not known: ${says}; see ${runbook}`);
  }
}

async function once(stores: Stores, json: boolean): Promise<void> {
  const status = await read(stores);
  if (json) printJson(status, 2);
  else print(statusLines(allPrintable(status), viewOf(undefined)).join("\n"));
}

async function watch(stores: Stores, json: boolean): Promise<void> {
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort());
  // Its reader has left, as after `| head`.
  process.stdout.once("error", () => stop.abort());
  let peak = 0;
  let drawn = 0;
  while (!stop.signal.aborted) {
    if (stores.redis.status !== "ready") throw new UserError("the connection to Redis was lost");
    const status = await read(stores);
    const waiting = waitingIn(status.backlog);
    peak = waiting === 0 ? 0 : Math.max(peak, waiting);
    if (json) printJson(status);
    else drawn = draw(statusLines(allPrintable(status), viewOf(peak)), drawn);
    await sleep(WATCH_MS, undefined, { signal: stop.signal }).catch(() => {});
  }
}

/** On a terminal, draws over the last drawing; elsewhere below it. @returns lines that the next one covers. */
function draw(lines: readonly string[], drawn: number): number {
  const { stdout } = process;
  if (!stdout.isTTY) {
    stdout.write(`${lines.join("\n")}\n\n`);
    return 0;
  }
  moveCursor(stdout, 0, -drawn);
  clearScreenDown(stdout);
  // A line that wraps (a word longer than the terminal is wide), or more lines than rows, could not be drawn over.
  const shown = stdout.rows > 1 ? lines.slice(0, stdout.rows - 1) : lines;
  stdout.write(`\u001b[?7l${shown.join("\n")}\n\u001b[?7h`);
  return shown.length;
}

function viewOf(peak: number | undefined): View {
  return {
    paint: (style, text) => styleText(style, text, { stream: process.stdout }),
    bars: process.stdout.isTTY,
    peak,
    columns: terminalColumns(),
  };
}
