/** How long it takes until the differences that comparisons have found are gone. */
import type { EndedDifference } from "../core/state/differences.ts";
import type { Stores } from "../operate/status/stores.ts";

/** How long differences took to be gone, ms: half of them, and all but one in a hundred, at most so long. */
export interface RepairTimes {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Of the differences that have ended last: all, and by field, owner, and export; the most frequent first. */
export async function repairTimes({ clock, differences }: Pick<Stores, "clock" | "differences">) {
  const ended = await differences.ended(clock.now());
  const by = (namesOf: (one: EndedDifference) => readonly string[]) => {
    const groups = new Map<string, number[]>();
    for (const one of ended)
      for (const name of namesOf(one)) {
        const group = groups.get(name);
        if (group === undefined) groups.set(name, [one.tookMs]);
        else group.push(one.tookMs);
      }
    return [...groups]
      .map(([name, tookMs]) => ({ name, ...timesOf(tookMs) }))
      .toSorted((a, b) => b.count - a.count);
  };
  return {
    all: timesOf(ended.map(({ tookMs }) => tookMs)),
    byField: by(({ fields }) => fields),
    byOwner: by(({ owner }) => (owner === undefined ? [] : [owner])),
    byExport: by(({ source }) => [source]),
  };
}

function timesOf(tookMs: readonly number[]): RepairTimes {
  const sorted = tookMs.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0;
  return { count: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99) };
}
