/** What senders do: who is silent, whose clock is ahead, and whose requests were not accepted. Pure. */
import { PAUSES_MS, type ClockAhead, type Pauses } from "../../core/state/sources.ts";
import type { Readings } from "./readings.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A source is silent after its longest usual pause, and half of it. */
const USUAL = 1.5;

/** One that was heard for less than an hour has no usual pause. It may have been a try: it is silent for a week at most. */
const isUsual = ({ since = Infinity }: Partial<Pauses> = {}, lastAt: number): boolean =>
  lastAt - since >= HOUR_MS;

/** The longest pause of the two weeks before its last event, ms; 0: less than 40 minutes. */
export const longestPause = (known: Pauses | undefined, lastAt: number): number =>
  known?.pauses.find(([endedAt]) => endedAt > lastAt - PAUSES_MS)?.[1] ?? 0;

type Heard = Pick<Readings, "now" | "sourcePauses" | "sources">;

/** After how long without an event each source counts as silent, ms; those that never are, are left out. */
export const silentAfter = ({ now, sourcePauses, sources }: Heard): Record<string, number> =>
  Object.fromEntries(
    Object.entries(sources).flatMap(([source, lastAt]): [string, number][] => {
      const pauses = sourcePauses[source];
      if (isUsual(pauses, lastAt)) {
        return [[source, Math.max(HOUR_MS, USUAL * longestPause(pauses, lastAt))]];
      }
      return now - lastAt < 7 * DAY_MS ? [[source, DAY_MS]] : [];
    }),
  );

/** The sources that have sent nothing for longer than they use to. */
export const silentIn = (readings: Heard): ReadonlySet<string> =>
  new Set(
    Object.entries(silentAfter(readings)).flatMap(([source, afterMs]) =>
      readings.now - (readings.sources[source] ?? 0) > afterMs ? [source] : [],
    ),
  );

/** A clock that was ahead counts as ahead for this long, ms. */
const AHEAD_MS = 3_600_000;

/** By how much a source's clock is ahead of Redis' clock, ms; 0 when that was long ago, or never. */
export const clockAheadNow = (now: number, seen: ClockAhead | undefined): number =>
  seen !== undefined && now - seen.at < AHEAD_MS ? seen.aheadMs : 0;

export type RefusedRequests = ReturnType<typeof refusedIn>[number];

/**
 * @param outcomes `sender_error <route> <code>`, `webhook_error <webhook> <outcome>` → how many.
 * @returns also why: the outcome of a webhook, or the HTTP status.
 */
export function refusedIn(outcomes: Readonly<Record<string, number>>) {
  return Object.entries(outcomes).flatMap(([name, count]) => {
    if (count === 0) return [];
    const [, webhook, outcome] = /^webhook_error (\S+) (\w+)$/.exec(name) ?? [];
    if (outcome !== undefined) return [{ address: `/webhooks/${webhook}`, why: outcome, count }];
    const [, route, code] = /^sender_error (\w+) (\d+)$/.exec(name) ?? [];
    // `webhook_error` names these errors for each webhook.
    const isNamed = route === "webhooks" && (code === "400" || code === "401");
    return code === undefined || isNamed ? [] : [{ address: `/${route}`, why: code, count }];
  });
}
