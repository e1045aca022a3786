import { crmsync } from "../base/command.ts";
import { Command } from "commander";
import { readConfig } from "../base/config.ts";
import { MemoryGate, Replication } from "../core/state/redis-health.ts";
import { UnknownKey } from "../core/state/sealing.ts";
import { openStores } from "../operate/status/stores.ts";
import { LANES, type Lane } from "../core/event/lane.ts";
import { connectOnce } from "../base/connect-redis.ts";
import { isRedisTrouble, redisTrouble } from "../base/redis-trouble.ts";
import { UserError } from "../base/user-error.ts";
import { Choice } from "./arguments.ts";
import { recordAct } from "./operator.ts";
import { printEither, showBar, type Bar } from "./output.ts";
import { openTextFile, linesOf, type TextFile } from "./text-lines.ts";
import { parseEvent } from "../core/event/crm-event.ts";
import { parseExactly, jsonFaultAt } from "../core/event/exact-json.ts";
import { printable } from "../base/printable.ts";

/** Events sent to Redis in one round trip. */
const CHUNK = 500;

interface PushOptions {
  readonly lane?: Lane;
  readonly json?: true;
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

async function push(name: string, { lane, json }: PushOptions): Promise<void> {
  const config = readConfig();
  const file = await openTextFile(name);
  const redis = await connectOnce(config);
  const stores = openStores(config, redis);
  const { clock, inbox, keyring, sealing, staged } = stores;
  const totals = { accepted: 0, duplicates: 0, invalid: 0 };
  let chunk: LineEvent[] = [];
  const memory = new MemoryGate(redis);
  const flush = async (): Promise<undefined> => {
    if (await memory.isClosed()) {
      throw new UserError(
        `Redis is nearly full and accepts no events: see ${crmsync`status`}, docs/runbook.md#crmsyncredisnearlyfull`,
      );
    }
    const contentOf = await keyring.contentHash();
    const seen = await staged.seen(chunk, contentOf);
    const fresh = chunk.filter((event) => !seen.has(event));
    const [first] = fresh;
    if (first !== undefined) {
      // The audit lines of the changes name the source that events claim; only this one names who pushed.
      const { id, source } = first;
      await recordAct(stores, "push", { event: { id, source }, details: { events: fresh.length } });
    }
    const { accepted, duplicates } = await inbox.push(fresh, clock.latest(), contentOf);
    totals.accepted += accepted;
    totals.duplicates += duplicates + chunk.length - fresh.length;
    chunk = [];
  };
  try {
    // No process would take them from here, above all when the state was moved to another Redis.
    stores.stateVersion.refuse(await stores.stateVersion.read());
    await clock.measure();
    // Without the key, the events would lie in Redis in plain text.
    const missing = await keyring.missingKey();
    if (missing !== undefined) throw new UnknownKey(missing, sealing.keyIds);
    totals.invalid = await readEventLines(file, {
      lane,
      now: () => clock.latest(),
      take(event) {
        chunk.push(event);
        return chunk.length === CHUNK ? flush() : undefined;
      },
    });
    await flush();
    await new Replication(redis, warnOfReplica).confirm();
  } catch (error) {
    if (error instanceof UnknownKey) throw error;
    if (error instanceof UserError) {
      throw new UserError(
        `${error.message}. ${totals.accepted} events were accepted before; none counts twice when you push the whole file again`,
      );
    }
    if (!isRedisTrouble(error)) throw error;
    const { says, runbook } = redisTrouble(error);
    throw new UserError(
      `${says}: ${totals.accepted} events were accepted, or some more. Push the same file again, none counts twice; see ${runbook}`,
    );
  } finally {
    await stores.close();
  }
  const { accepted, duplicates, invalid } = totals;
  const says = `${accepted} accepted, ${duplicates} already known, ${invalid} invalid`;
  printEither(json, totals, says);
  if (invalid > 0) process.exitCode = 1;
}

const warnOfReplica = () =>
  void process.stderr.write("no replica of Redis has confirmed the last events in time\n");

/** How many invalid lines are reported one by one. */
const MAX_REPORTED = 20;

/** A valid event as it was written. */
export type LineEvent = { source: string; id: string };

export interface ReadOptions {
  /** Lane of events that have none. */
  readonly lane?: Lane | undefined;
  /** See `parseEvent`. */
  readonly now: () => number;
  /** @returns what is wrong with the event; undefined when it was taken. */
  readonly take: (event: LineEvent) => string | undefined | Promise<undefined>;
}

/** Takes the event of each line, and reports the other lines on stderr. @returns how many these are. */
export async function readEventLines(file: TextFile, options: ReadOptions): Promise<number> {
  const bar = showRead(file);
  let invalid = 0;
  let number = 0;
  try {
    for await (const line of linesOf(file)) {
      number += 1;
      if (line.trim() === "") continue;
      const problem = await problemOf(line, options);
      if (problem === undefined) continue;
      invalid += 1;
      if (invalid <= MAX_REPORTED) process.stderr.write(`line ${number}: ${printable(problem)}\n`);
      if (invalid === MAX_REPORTED + 1) {
        process.stderr.write("further invalid lines are counted only\n");
      }
    }
  } finally {
    bar.stop();
  }
  return invalid;
}

/** Takes the event of a line. @returns what is wrong with the line; undefined when its event was taken. */
function problemOf(
  line: string,
  { lane, now, take }: ReadOptions,
): ReturnType<ReadOptions["take"]> {
  let value: unknown;
  try {
    value = parseExactly(line);
  } catch {
    return `is not JSON at column ${jsonFaultAt(line).column}`;
  }
  if (lane !== undefined && typeof value === "object" && value !== null) {
    const own = "lane" in value ? value.lane : undefined;
    value = { ...value, lane: own ?? lane };
  }
  const parsed = parseEvent(value, now());
  if (parsed.ok) return take(value as LineEvent);
  return parsed.problems
    .map(({ field, rule, kind }) => `${field || "the event"} ${rule} (it is ${kind})`)
    .join("; ");
}

/** How much of the file is read. */
function showRead({ input, bytes }: TextFile): Bar {
  const bar = showBar("pushing", "bytes");
  let read = 0;
  if (bytes !== undefined) {
    input.on("data", (chunk: Buffer) => bar.update((read += chunk.length), bytes));
  }
  return bar;
}
