/** Notifications that do not arrive. Pure. */
import { counted } from "../ops/counted.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export function notificationFindings({ notifications }: Readings): Finding[] {
  const { failure, waiting } = notifications;
  if (failure === undefined) return [];
  const wait = counted(waiting, "notification waits", "notifications wait");
  const says = `NOTIFY_URL takes no notification since ${clockTime(failure.since)} (${failure.why}); ${wait}: crmsync notify test says why.`;
  return [finding("warning", "crmsyncnotificationsfailing", says)];
}
