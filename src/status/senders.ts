/** What senders do: who is silent, whose clock is ahead, and whose requests were not accepted. Pure. */
import type { ClockAhead } from "../state/sources.ts";

/** A source that sent something within a week and nothing for a day is silent, ms. */
export const SILENT_MS = 86_400_000;
const FORGOTTEN_MS = 7 * SILENT_MS;

/** A clock that was ahead counts as ahead for this long, ms. */
const AHEAD_MS = 3_600_000;

/** By how much a source's clock is ahead of Redis' clock, ms; 0 when that was long ago, or never. */
export const clockAheadNow = (now: number, seen: ClockAhead | undefined): number =>
  seen !== undefined && now - seen.at < AHEAD_MS ? seen.aheadMs : 0;

export type RefusedRequests = ReturnType<typeof refusedIn>[number];

/** @param at when its newest event was received, ms. */
export const isSilent = (now: number, at: number): boolean =>
  now - at > SILENT_MS && now - at < FORGOTTEN_MS;

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
