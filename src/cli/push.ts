import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { SingleBar } from "cli-progress";
import { Command } from "commander";
import { readConfig } from "../config.ts";
import { parseEvent } from "../event/crm-event.ts";
import { parseExactly } from "../event/exact-json.ts";
import { Inbox } from "../event/inbox.ts";
import { keysOf } from "../state/keys.ts";
import { RedisClock } from "../state/redis-clock.ts";
import { Replication } from "../state/replication.ts";
import { Sealing } from "../state/sealing.ts";
import { LANES, type Lane } from "../sync/lane.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { printable } from "../ops/printable.ts";
import { UserError } from "../ops/user-error.ts";
import { Choice } from "./choice.ts";

/** Events sent to Redis in one round trip. */
const CHUNK = 500;

/** How many invalid lines are reported one by one. */
const MAX_REPORTED = 20;

interface PushOptions {
  readonly lane?: Lane;
  readonly json?: true;
}

interface Totals {
  lines: number;
  accepted: number;
  duplicates: number;
  invalid: number;
}

export function pushCommand(): Command {
  return new Command("push")
    .description("add events from a file of JSON lines to the inbox, one CloudEvent per line")
    .argument("<file>", "the file, or - for standard input")
    .addOption(new Choice("--lane <lane>", "lane of events that have none", LANES))
    .option("--json", "print the totals as JSON")
    .addHelpText(
      "after",
      `
Uses REDIS_URL, otherwise the Redis of the daemon that runs on DATA_DIR. Reports each invalid line
with its number and skips it; the other events are pushed, and the exit code is 1.`,
    )
    .action(push);
}

async function push(file: string, options: PushOptions): Promise<void> {
  const config = readConfig();
  const { input, bytes } = await openInput(file);
  const redis = await connectOnce(config);
  const clock = new RedisClock(redis, keysOf(config.QUEUE_PREFIX));
  await clock.measure();
  const inbox = new Inbox(redis, config.QUEUE_PREFIX, new Sealing(config.stateKeys));
  const bar = new SingleBar({
    format: "pushing [{bar}] {percentage}% · {lines} events · {eta_formatted} left",
    stream: process.stderr,
    clearOnComplete: true,
  });
  const showsBar = process.stderr.isTTY && bytes !== undefined;
  if (showsBar) bar.start(bytes, 0, { lines: 0 });
  let readBytes = 0;
  input.on("data", (chunk: Buffer) => {
    readBytes += chunk.length;
  });
  const totals: Totals = { lines: 0, accepted: 0, duplicates: 0, invalid: 0 };
  try {
    const check = (line: string) => checkLine(line, options.lane, clock.now());
    await pushLines(input, inbox, check, totals, () => {
      if (showsBar) bar.update(readBytes, { lines: totals.lines });
    });
    await new Replication(redis, warnOfReplica).confirm();
  } finally {
    if (showsBar) bar.stop();
    await inbox.close();
    redis.disconnect();
  }
  const { accepted, duplicates, invalid } = totals;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ accepted, duplicates, invalid })}\n`
      : `${accepted} accepted, ${duplicates} already waiting, ${invalid} invalid\n`,
  );
  if (invalid > 0) process.exitCode = 1;
}

const warnOfReplica = () =>
  void process.stderr.write("no replica of Redis has confirmed the last events in time\n");

async function pushLines(
  input: Readable,
  inbox: Inbox,
  check: (line: string) => ReturnType<typeof checkLine>,
  totals: Totals,
  progress: () => void,
): Promise<void> {
  let chunk: { source: string; id: string }[] = [];
  const flush = async () => {
    const { accepted, duplicates } = await inbox.push(chunk);
    totals.accepted += accepted;
    totals.duplicates += duplicates;
    chunk = [];
    progress();
  };
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    if (line.trim() === "") continue;
    totals.lines += 1;
    const checked = check(line);
    if (typeof checked === "string") {
      totals.invalid += 1;
      if (totals.invalid <= MAX_REPORTED)
        process.stderr.write(`line ${number}: ${printable(checked)}\n`);
      if (totals.invalid === MAX_REPORTED + 1)
        process.stderr.write("further invalid lines are counted only\n");
      continue;
    }
    chunk.push(checked);
    if (chunk.length === CHUNK) await flush();
  }
  if (chunk.length > 0) await flush();
  progress();
}

/** The event of a line, or what is wrong with it. */
function checkLine(
  line: string,
  lane: Lane | undefined,
  now: number,
): { source: string; id: string } | string {
  let value: unknown;
  try {
    value = parseExactly(line);
  } catch {
    return "is not JSON";
  }
  if (lane !== undefined && typeof value === "object" && value !== null) value = { lane, ...value };
  const parsed = parseEvent(value, now);
  if (parsed.ok) return value as { source: string; id: string };
  return parsed.problems
    .map(({ field, rule, kind }) => `${field || "the event"} ${rule} (it is ${kind})`)
    .join("; ");
}

async function openInput(file: string): Promise<{ input: Readable; bytes: number | undefined }> {
  if (file === "-") return { input: process.stdin, bytes: undefined };
  try {
    const { size } = await stat(file);
    return { input: createReadStream(file), bytes: size };
  } catch (error) {
    throw new UserError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? ""})`);
  }
}
