/** Finds the file of a plan on this machine, and reads a page of it. */
import { readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Config } from "../../base/config.ts";
import { entryIn, linesOf, planHeader, type PlanEntry } from "./plan-file.ts";

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
  const found: PlanEntry[] = [];
  const wanted = Math.max(0, Math.min(count, entries - from));
  // The first line is the header.
  let line = -1;
  try {
    for await (const text of linesOf(file)) {
      if (found.length === wanted) break;
      if (line >= from) found.push(entryIn(text));
      line += 1;
    }
  } catch {
    return undefined;
  }
  return found.length === wanted ? found : undefined;
}
