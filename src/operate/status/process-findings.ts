/** What is wrong with processes: silent, frozen, far from Redis, with a wrong clock, without an audit trail or a key. Pure. */
import { crmsync } from "../../base/command.ts";
import { counted } from "../../base/counted.ts";
import { isQuiet, type RunningProcess, type TokenDoubt } from "../../core/state/heartbeats.ts";
import { clockTime, duration } from "./clock-time.ts";
import { warning, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";
import { toldOffAfterMs } from "../../core/state/told-outcomes.ts";
import { writesRejected } from "../../core/state/redis-health.ts";

/** A freeze is named for this long after its end, ms. */
const FROZEN_NAMED_MS = 3_600_000;

/** Within one place Redis answers in a millisecond; from here on changes are noticeably slower, ms. */
export const SLOW_PING_MS = 100;

/** A clock that is further away from Redis' clock is wrong, ms. */
const CLOCK_WRONG_MS = 5000;

type Processes = Pick<Readings, "processes">;

export function processFindings(readings: Readings): Finding[] {
  const { now, processes } = readings;
  const quiet = areProcessesUnknown(readings) ? [] : processes;
  return [
    ...quiet.filter((one) => isQuiet(now, one)).map(quietFinding),
    ...processes.flatMap((one) => frozenFinding(now, one)),
    ...speedFinding(processes),
    ...processes.flatMap(clockFinding),
    ...settingFindings(processes),
    ...signInFindings(processes),
  ];
}

/** Each process asks the identity provider by itself; one finding for each answer. */
function signInFindings(processes: readonly RunningProcess[]): Finding[] {
  const problems = new Set(processes.flatMap(({ signInProblem }) => signInProblem ?? []));
  return [...problems].map((problem) => {
    const says = `Sign-in to the console does not work at ${problem}. Open sessions continue, and tokens work.`;
    return warning("sign-in-does-not-work", says);
  });
}

const quietFinding = ({ id, seenAt }: RunningProcess): Finding =>
  warning(
    "crmsyncdown",
    `The process ${id} has sent no heartbeat since ${clockTime(seenAt)}: it hangs, or was killed.`,
  );

function frozenFinding(now: number, { id, frozen }: RunningProcess): Finding[] {
  if (frozen === undefined || now - frozen.to > FROZEN_NAMED_MS) return [];
  const { from, to } = frozen;
  const says = `The process ${id} was frozen from ${clockTime(from)} to ${clockTime(to)} (${duration(to - from)}): it did not run. Other processes may have repeated its work.`;
  return [warning("crmsyncprocessfrozen", says)];
}

/** What it means that processes have different values of a setting. */
const EFFECT =
  "They share the work: each change is handled by the setting of the process that takes it.";
const EFFECTS: Readonly<Record<string, string>> = {
  SERVICE_BASE_URL:
    "Those that began first send; those with another service wait until the last of them has ended.",
  SEND: "Those that have it on send all changes.",
  APPROVALS: "An act needs a second person as soon as one of them says so.",
  QUALITY_CRON: "No list is sent to owners until all have the same.",
  RECONCILE_CRON: "The CRM is compared at the times of each.",
};

/** Processes that share the work must agree on where and how. */
function settingFindings(processes: readonly RunningProcess[]): Finding[] {
  const names = new Set(processes.flatMap(({ settings = {} }) => Object.keys(settings)));
  return [...names].flatMap((name) => {
    const values = Map.groupBy(
      processes.filter(({ settings }) => settings?.[name] !== undefined),
      ({ settings }) => settings?.[name],
    );
    if (values.size < 2) return [];
    const each = [...values].map(([value, [one]]) => `${one?.id ?? ""} has ${value}`).join(", ");
    const says = `Processes have different ${name}: ${each}. ${EFFECTS[name] ?? EFFECT}`;
    return [warning("processes-have-different-settings", says)];
  });
}

/** One for all processes: the way to Redis is often the same. */
function speedFinding(processes: readonly RunningProcess[]): Finding[] {
  const slow = processes
    .flatMap(({ id, pingMs = 0 }) => (pingMs > SLOW_PING_MS ? [{ id, pingMs }] : []))
    .sort((a, b) => b.pingMs - a.pingMs);
  const [slowest] = slow;
  if (slowest === undefined) return [];
  const others =
    slow.length === 1 ? "" : ` (and over ${SLOW_PING_MS} ms to answer ${slow.length - 1} more)`;
  const says = `Redis takes ${Math.round(slowest.pingMs)} ms to answer the process ${slowest.id}${others}: each change needs several answers, so changes are sent slowly.`;
  return [warning("crmsyncredisslow", says)];
}

function clockFinding({ id, clockAheadMs = 0 }: RunningProcess): Finding[] {
  const off = Math.abs(clockAheadMs);
  if (off <= CLOCK_WRONG_MS) return [];
  const side = clockAheadMs > 0 ? "ahead of" : "behind";
  const says = `The clock of the process ${id} is ${duration(off)} ${side} Redis' clock: retries may come late, and certificates are checked by the clock of the machine.`;
  return [warning("the-clock-of-a-process-is-wrong", says)];
}

/** An act whose line is not there after this time is late, ms: usually it is there within two seconds. */
const LATE_MS = 60_000;

/**
 * The processes with the role sync that do not send because of this, and why: `some`, as long as others send,
 * or why `all` of them do not, which is a stop (stops.ts).
 */
export function notSendingIn<Cause extends "auditFailure" | "tokenDoubt">(
  { processes }: Processes,
  cause: Cause,
) {
  const syncing = processes.filter(({ roles }) => roles.includes("sync"));
  const stopped = syncing.flatMap(({ id, [cause]: why }) =>
    why === undefined ? [] : [{ id, why }],
  );
  const isAll = stopped.length === syncing.length;
  return {
    some: isAll ? [] : stopped,
    all: isAll ? stopped[0]?.why : undefined,
    isNone: stopped.length === 0,
  };
}

/** How long the finding stays after an audit trail was found shorter than before, ms. */
const LOST_MS = 7 * 86_400_000;

export function* auditFindings(readings: Readings): Iterable<Finding> {
  const { actWaitsSince, auditHeads, now } = readings;
  for (const { lostAt = 0, where } of Object.values(auditHeads)) {
    if (now - lostAt > LOST_MS) continue;
    const says = `Lines of the audit trail ${where} were gone at ${clockTime(lostAt)}: its file was removed, moved to another folder, or cut. Put it back beside the new one (as audit.log.1), or name it where it is: ${crmsync`audit verify`} names the lines that are missing, and ends this finding when none is.`;
    yield warning("crmsyncauditfailed", says, where);
  }
  const { some, isNone } = notSendingIn(readings, "auditFailure");
  for (const { id, why } of some) {
    const says = `The process ${id} cannot write its audit trail (${why}): it leaves changes to the other processes.`;
    yield warning("crmsyncauditfailed", says);
  }
  // While a trail cannot be written, that is the cause.
  if (isNone && actWaitsSince !== undefined && now - actWaitsSince > LATE_MS) {
    const says = `An act of an operator waits since ${clockTime(actWaitsSince)} for its line in the audit trail: no running process with the role sync has AUDIT_LOG.`;
    yield warning("crmsyncauditfailed", says);
  }
}

/** Section of docs/runbook.md. */
export const TENANT_UNKNOWN = "crmsynctenantunknown";

export const doubtText = (doubt: TokenDoubt): string =>
  doubt === "foreign"
    ? "SERVICE_TOKEN seems to be another tenant's: with it, the service has none of the relations that the ledger knows"
    : `Whether SERVICE_TOKEN is of the ledger's tenant is not known: the check was answered as ${doubt}`;

export const secretFindings = (readings: Processes): Finding[] => [
  ...unusableFindings(readings),
  ...tenantFindings(readings),
];

/** The processes that go on with a former value of a secret. */
const unusableFindings = ({ processes }: Processes): Finding[] =>
  processes.flatMap(({ id, secretProblems = [] }) =>
    secretProblems.map((problem) =>
      warning(
        "the-file-of-a-secret-cannot-be-used",
        `The process ${id} goes on with the former ${problem}. A restart fails until the file is right.`,
      ),
    ),
  );

const tenantFindings = (readings: Processes): Finding[] =>
  notSendingIn(readings, "tokenDoubt").some.map(({ id, why }) => {
    const says = `${doubtText(why)}. The process ${id} leaves changes to the other processes.`;
    return warning(TENANT_UNKNOWN, says);
  });

export function* sealingFindings({ processes, resealed }: Readings): Iterable<Finding> {
  for (const { id, lacksKey } of processes) {
    if (lacksKey === undefined) continue;
    const says = `The process ${id} does not have the key ${lacksKey} that Redis is sealed with: it leaves changes to the other processes.`;
    yield warning("the-state-key", says);
  }
  if (resealed === undefined) return;
  const missing = Object.entries(resealed.missing);
  for (const [keyId, values] of missing) {
    const says = `${counted(values, "value")} in Redis cannot be opened: sealed with the key ${keyId}, which STATE_KEY does not hold. Add it after a blank.`;
    yield warning("the-state-key", says);
  }
  if (missing.length > 0) return;
  const says =
    "Values in Redis are being sealed with the new STATE_KEY: keep the old one until then.";
  yield warning("the-state-key", says);
}

export function notificationFindings({ notifications }: Readings): Finding[] {
  const { failure, waiting } = notifications;
  if (failure === undefined) return [];
  const wait = counted(waiting, "notification waits", "notifications wait");
  const says = `NOTIFY_URL takes no notification since ${clockTime(failure.since)} (${failure.why}); ${wait}: ${crmsync`notify test`} says why.`;
  return [warning("crmsyncnotificationsfailing", says)];
}

/** While a process has QUALITY_CRON: without it nothing is due. */
export function qualityFindings({ processes, quality }: Readings): Finding[] {
  const isDue = processes.some(({ settings }) => settings?.["QUALITY_CRON"] !== undefined);
  if (quality?.failure === undefined || !isDue) return [];
  const { at, due, why } = quality.failure;
  const says = `What owners must correct in the CRM was due at ${clockTime(due)}, and was not sent, or not all of it (last try ${clockTime(at)}: ${why}); it is tried again.`;
  return [warning("the-lists-for-owners-are-not-sent", says)];
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
      `${says}. The CRM may show an older state: ${crmsync`notify test`} says why.`,
    ),
  ];
}

/** Without writes there are no heartbeats: which processes run is not known. */
export const areProcessesUnknown = (readings: Readings): boolean =>
  whyWritesRejected(readings) !== undefined;

/** Why Redis rejects all writes now, as half a sentence; undefined while it accepts them. */
export function whyWritesRejected({ now, processes, lost, redis }: Readings): string | undefined {
  const certain = writesRejected(redis);
  if (certain !== undefined || redis.savesSucceed) return certain;
  // After a failed save Redis rejects writes if it has save points, which INFO does not tell.
  const known = lost === undefined ? processes : [...processes, lost];
  const isSilent = known.length > 0 && known.every((one) => isQuiet(now, one));
  return isSilent ? "its last RDB save failed, and no process can write its heartbeat" : undefined;
}
