/** What keeps acts and changes out of the audit trail. Pure. */
import type { RunningProcess } from "../state/heartbeats.ts";
import { clockTime } from "./clock-time.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

const SECTION = "crmsyncauditfailed";

/** An act whose line is not there after this time is late, ms: usually it is there within two seconds. */
const LATE_MS = 60_000;

type Processes = Pick<Readings, "processes">;

export const syncingIn = ({ processes }: Processes): RunningProcess[] =>
  processes.filter(({ roles }) => roles.includes("sync"));

/** The processes that cannot write their audit trail, and why. */
export const auditFailuresIn = (readings: Processes): { id: string; why: string }[] =>
  syncingIn(readings).flatMap(({ id, auditFailure: why }) =>
    why === undefined ? [] : [{ id, why }],
  );

/** Failures of some of the processes; failures of all of them are a stop (stops.ts). */
export function auditFindings(readings: Readings): Finding[] {
  const { actWaitsSince, now } = readings;
  const failures = auditFailuresIn(readings);
  const warn = (says: string) => finding("warning", SECTION, says);
  const found =
    failures.length === syncingIn(readings).length
      ? []
      : failures.map(({ id, why }) =>
          warn(
            `The process ${id} cannot write its audit trail (${why}): it leaves changes to the other processes.`,
          ),
        );
  // While a trail cannot be written, that is the cause.
  if (failures.length === 0 && actWaitsSince !== undefined && now - actWaitsSince > LATE_MS) {
    const says = `An act of an operator waits since ${clockTime(actWaitsSince)} for its line in the audit trail: no running process with the role sync has AUDIT_LOG.`;
    found.push(warn(says));
  }
  return found;
}
