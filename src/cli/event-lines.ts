/** Reads a file of events, one CloudEvent per line, and reports the lines that are none. */
import { parseEvent } from "../event/crm-event.ts";
import { parseExactly, jsonFaultAt } from "../event/exact-json.ts";
import type { Lane } from "../event/lane.ts";
import { printable } from "../ops/printable.ts";
import { showBar, type Bar } from "./bars.ts";
import { linesOf, type TextFile } from "./text-lines.ts";

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
  const parsed = parseEvent(value, now(), "any");
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
