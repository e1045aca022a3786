/** Finds the file of a plan on this machine, and reads a page of it. */
import { createReadStream, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../config.ts";
import { entryIn, planHeader, type PlanEntry } from "./plan-file.ts";

/** Most files that are opened for one search: those written nearest to the time of the plan. */
const MOST_OPENED = 200;

/** In these folders, and under these names, crmsync writes plans by itself. */
const placesOf = ({ DATA_DIR, RECONCILE_DIR }: Config): [folder: string, name: RegExp][] => [
  [join(DATA_DIR, "reconcile"), /^plan-.*\.ndjson$/],
  ...(RECONCILE_DIR === undefined
    ? []
    : [[resolve(RECONCILE_DIR, "done"), /\.plan\.ndjson$/] as [string, RegExp]]),
];

/**
 * Finds a plan by its id: its file's name may come from outside, and a volume may have moved to here.
 * @param at when the plan was made, ms.
 * @returns undefined when it is not here
 */
export async function findPlan(
  config: Config,
  { id, at }: { readonly id: string; readonly at: number },
): Promise<string | undefined> {
  const found = placesOf(config).flatMap(([folder, name]) => filesIn(folder, name, at));
  const nearest = found.sort((a, b) => a.distance - b.distance).slice(0, MOST_OPENED);
  for (const { file } of nearest) {
    const header = await planHeader(file).catch(() => undefined);
    if (header?.id === id) return file;
  }
  return undefined;
}

function filesIn(folder: string, wanted: RegExp, at: number) {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const file = join(folder, name);
    const written = wanted.test(name)
      ? statSync(file, { throwIfNoEntry: false })?.mtimeMs
      : undefined;
    return written === undefined ? [] : [{ file, distance: Math.abs(written - at) }];
  });
}

const NEWLINE = 10;

/**
 * Some entries of a plan, without reading the others as JSON.
 * @param entries how many it has.
 * @param from number of the first one, from 0.
 * @returns undefined when the file is gone, or not as it was written
 */
export async function planPage(
  { file, entries }: { readonly file: string; readonly entries: number },
  from: number,
  count: number,
): Promise<PlanEntry[] | undefined> {
  try {
    // The first line is the header.
    const wanted = Math.max(0, Math.min(count, entries - from));
    if (wanted === 0) return [];
    const lines = await linesOf(file, from + 1, wanted);
    return lines.length === wanted ? lines.map(entryIn) : undefined;
  } catch {
    return undefined;
  }
}

async function linesOf(file: string, first: number, count: number): Promise<string[]> {
  const parts: Buffer[] = [];
  let line = 0;
  for await (const chunk of createReadStream(file, {
    highWaterMark: 1 << 18,
  }) as AsyncIterable<Buffer>) {
    let start = line >= first ? 0 : -1;
    let end = chunk.length;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, at + 1)) {
      line += 1;
      if (line === first) start = at + 1;
      if (line === first + count) {
        end = at;
        break;
      }
    }
    if (start >= 0) parts.push(chunk.subarray(start, end));
    if (line >= first + count) break;
  }
  const text = Buffer.concat(parts).toString("utf8");
  return text.split("\n").filter((one) => one !== "");
}
