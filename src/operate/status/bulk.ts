/** The lane bulk: what waits in it, what a plan has still to feed, and when all of it will be sent. Pure. */
import { crmsync } from "../../base/command.ts";
import { counted } from "../../base/counted.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import { bulkPending, isInterrupted, requestsFor, sentAt } from "./stops.ts";
import { clockTime, duration, localTime } from "./clock-time.ts";
import { warning, type Finding } from "./finding.ts";
import type { BulkPause } from "../../core/state/bulk-changes.ts";
import type { Readings } from "./readings.ts";

export type BulkStatus = ReturnType<typeof bulkStatusOf>;

/** Times are ISO 8601 in UTC. */
export function bulkStatusOf(readings: Readings, reserve: number) {
  const { bulkPause, feeding, isFeeding, minutes, unsynced } = readings;
  const endsAt = bulkPending(readings) === 0 ? undefined : sentAt(readings, ["bulk"]);
  return {
    /** Changes that wait in the lane. */
    waiting: unsynced.bulk,
    /** The plan of `crmsync reconcile` that was begun last and is not finished; whether a process carries it out now. */
    plan:
      feeding === undefined
        ? null
        : { id: feeding.id, entries: feeding.entries, left: feeding.left, running: isFeeding },
    /** Requests that these changes need, at least. */
    requests: requestsFor(readings).bulk,
    sentInLastHour: sumOf(minutes)["sent bulk"] ?? 0,
    paused:
      bulkPause === undefined
        ? null
        : { ...bulkPause, since: iso(bulkPause.since), reason: bulkPause.reason ?? null },
    /** Requests of the hour that are left to live changes. */
    reserve,
    /** null while nothing waits, and while the end is unknown. */
    endsAt: endsAt === undefined ? null : iso(endsAt),
  };
}

export function* bulkFindings(readings: Readings): Iterable<Finding> {
  const { bulkPause, feeding } = readings;
  if (bulkPause !== undefined) {
    const waits = counted(bulkPending(readings), "bulk change waits", "bulk changes wait");
    yield warning(
      "crmsyncbulkpaused",
      `The lane bulk is ${pauseText(bulkPause)}. ${waits} until ${crmsync`bulk resume`}; live changes go on.`,
    );
  }
  if (feeding !== undefined && isInterrupted(readings)) {
    yield warning(
      "a-plan-was-interrupted",
      `A plan of a comparison was interrupted with ${feeding.left} of ${feeding.entries} changes left: run the same command again, or ${crmsync`bulk cancel`}.`,
    );
  }
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** One line of `crmsync status`. */
export function bulkText(bulk: BulkStatus, at: string): string {
  const waits = amountText(bulk);
  const paused = pausedText(bulk);
  if (waits === undefined) return paused ?? "nothing waits";
  return [paused, waits, requestsText(bulk), `ends ${endText(bulk, at)}`]
    .filter((part) => part !== undefined)
    .join(" · ");
}

/** What `crmsync bulk status` prints below it. */
export const bulkShareText = ({ reserve, sentInLastHour }: BulkStatus, perHour: number): string =>
  `${sentInLastHour} sent in the last hour; ${reserve} of the hour's ${perHour} requests are left to live changes`;

/** Who has paused the lane, since when, and why. */
export const pauseText = ({ by, reason, since }: BulkPause): string =>
  `paused since ${clockTime(since)} by ${by}${reason === undefined ? "" : ` (${reason})`}`;

const pausedText = ({ paused }: BulkStatus): string | undefined =>
  paused === null
    ? undefined
    : pauseText({ ...paused, since: Date.parse(paused.since), reason: paused.reason ?? undefined });

function amountText({ plan, waiting }: BulkStatus): string | undefined {
  const left = plan?.left ?? 0;
  if (waiting + left === 0) return undefined;
  const waits = counted(waiting, "change waits", "changes wait");
  if (plan === null || left === 0) return waits;
  const interrupted = plan.running ? "" : ", which was interrupted: run the same command again";
  return `${waits}, and ${left} of ${plan.entries} are still to come from a plan${interrupted}`;
}

const requestsText = ({ requests }: BulkStatus): string =>
  `at least ${counted(requests, "request")}`;

function endText(bulk: BulkStatus, at: string): string {
  const { endsAt } = bulk;
  if (endsAt !== null) {
    const inMs = Date.parse(endsAt) - Date.parse(at);
    return inMs < 1000 ? "within seconds" : `${localTime(endsAt)} (in ${duration(inMs)})`;
  }
  return `unknown ${unknownText(bulk)}`;
}

/** Why it is not known when everything will have been sent. */
export function unknownText({ paused, plan, requests }: BulkStatus): string {
  if (paused !== null && requests > 0) return `until ${crmsync`bulk resume`}`;
  const isInterrupted = plan !== null && plan.left > 0 && !plan.running;
  return isInterrupted ? "until the plan goes on" : "while sending is stopped or limited";
}
