/** The lane bulk as text. */
import { counted } from "../ops/counted.ts";
import type { BulkStatus } from "./bulk.ts";
import { duration } from "./duration.ts";
import { localTime } from "./local-time.ts";

/** One line of `crmsync status`. */
export function bulkText(bulk: BulkStatus, at: string): string {
  const waits = amountText(bulk);
  const paused = pausedText(bulk);
  if (waits === undefined) return paused ?? "nothing waits";
  return [paused, waits, requestsText(bulk), `ends ${endText(bulk, at)}`]
    .filter((part) => part !== undefined)
    .join(" · ");
}

/** All that `crmsync bulk status` prints. */
export function bulkLines(bulk: BulkStatus, at: string, perHour: number): string[] {
  const { reserve, sentInLastHour } = bulk;
  const waits = amountText(bulk);
  return [
    pausedText(bulk) ?? "not paused",
    waits === undefined ? "nothing waits" : `${waits}: ${requestsText(bulk)}`,
    ...(waits === undefined ? [] : [`end: ${endText(bulk, at)}`]),
    `${sentInLastHour} sent in the last hour; ${reserve} of the hour's ${perHour} requests are left to live changes`,
  ];
}

function pausedText({ paused }: BulkStatus): string | undefined {
  if (paused === null) return undefined;
  const { by, reason, since } = paused;
  return `paused since ${localTime(since)} by ${by}${reason === null ? "" : ` (${reason})`}`;
}

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

function endText({ endsAt, paused, plan }: BulkStatus, at: string): string {
  if (endsAt !== null) {
    const inMs = Date.parse(endsAt) - Date.parse(at);
    return inMs < 1000 ? "within seconds" : `${localTime(endsAt)} (in ${duration(inMs)})`;
  }
  if (paused !== null) return "unknown until crmsync bulk resume";
  return plan !== null && plan.left > 0 && !plan.running
    ? "unknown until the plan goes on"
    : "unknown while sending is stopped";
}
