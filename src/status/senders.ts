/** What senders do: who is silent, and whose requests were not accepted. Pure. */

/** A source that sent something within a week and nothing for a day is silent, ms. */
export const SILENT_MS = 86_400_000;
const FORGOTTEN_MS = 7 * SILENT_MS;

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
