/** Notifications, and outcomes, that do not arrive. Pure. */
import { counted } from "../ops/counted.ts";
import { toldOffAfterMs } from "../state/told-outcomes.ts";
import { clockTime } from "./clock-time.ts";
import { warning, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function notificationFindings({ notifications }: Readings): Finding[] {
  const { failure, waiting } = notifications;
  if (failure === undefined) return [];
  const wait = counted(waiting, "notification waits", "notifications wait");
  const says = `NOTIFY_URL takes no notification since ${clockTime(failure.since)} (${failure.why}); ${wait}: crmsync notify test says why.`;
  return [warning("crmsyncnotificationsfailing", says)];
}

export function outcomeFindings({ now, told }: Readings, hourMs: number): Finding[] {
  const { failure, leftOut = 0, waiting = 0 } = told ?? {};
  const left =
    leftOut === 0 ? [] : [`${counted(leftOut, "outcome")} of the last day were left out`];
  const wait = counted(
    waiting,
    "record has an outcome that waits",
    "records have outcomes that wait",
  );
  const fails =
    failure === undefined
      ? []
      : now - failure.since >= toldOffAfterMs(hourMs)
        ? [
            `OUTCOME_WEBHOOK has taken nothing for a day (${failure.why}): outcomes are dropped, and one request an hour tries it`,
          ]
        : [
            `OUTCOME_WEBHOOK takes no outcome since ${clockTime(failure.since)} (${failure.why}); ${wait}`,
          ];
  const says = [...fails, ...left].join("; ");
  if (says === "") return [];
  return [
    warning(
      "outcomes-are-not-told",
      `${says}. The CRM may show an older state: crmsync notify test says why.`,
    ),
  ];
}
