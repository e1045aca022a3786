/** Says beforehand what a redrive would achieve, by the present mapping, validation and value lists. */
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import { groupsOf, type GroupKey } from "./group-of.ts";
import { forecastOf, type RedriveView, type UnknownWhy, type Forecast } from "./forecast.ts";

export interface RedrivePreview {
  readonly letters: number;
  /** Letters by forecast. */
  readonly sent: number;
  readonly settled: number;
  readonly fails: number;
  readonly unknown: Readonly<Record<UnknownWhy, number>>;
  /** For what those that fail would fail, the most frequent first; a letter may have several faults. */
  readonly failing: readonly (GroupKey & { readonly letters: number })[];
}

/** Faults that are returned, and that are counted. */
const MOST_RETURNED = 200;
const MOST_COUNTED = 5000;

/** @param letters are read as they are needed, and not kept. */
export async function previewRedrive(
  letters: AsyncIterable<StoredDeadLetter>,
  view: RedriveView,
  onForecast: (letter: StoredDeadLetter, forecast: Forecast) => void = () => {},
): Promise<RedrivePreview> {
  const counts = { letters: 0, sent: 0, settled: 0, fails: 0 };
  const unknown: Record<UnknownWhy, number> = { fetch: 0, service: 0, lists: 0 };
  const failing = new Map<string, GroupKey & { letters: number }>();
  for await (const letter of letters) {
    const forecast = await forecastOf(letter, view);
    onForecast(letter, forecast);
    counts.letters += 1;
    if (forecast.kind === "unknown") unknown[forecast.why] += 1;
    else counts[forecast.kind] += 1;
    if (forecast.kind === "fails") countFaults(failing, groupsOf(forecast));
  }
  const most = [...failing.values()].sort((a, b) => b.letters - a.letters);
  return { ...counts, unknown, failing: most.slice(0, MOST_RETURNED) };
}

function countFaults(
  failing: Map<string, GroupKey & { letters: number }>,
  keys: readonly GroupKey[],
): void {
  for (const key of keys) {
    const known = failing.get(key.id);
    if (known !== undefined) known.letters += 1;
    else if (failing.size < MOST_COUNTED) failing.set(key.id, { ...key, letters: 1 });
  }
}
