/** What is wrong with processes: silent, frozen, far from Redis, or with a wrong clock. Pure. */
import { isQuiet, type RunningProcess } from "../state/heartbeats.ts";
import { clockTime } from "./clock-time.ts";
import { duration } from "./duration.ts";
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";
import { areProcessesUnknown } from "./rejected-writes.ts";

/** A freeze is named for this long after its end, ms. */
const FROZEN_NAMED_MS = 3_600_000;

/** Within one place Redis answers in a millisecond; from here on changes are noticeably slower, ms. */
export const SLOW_PING_MS = 100;

/** A clock that is further away from Redis' clock is wrong, ms. */
const CLOCK_WRONG_MS = 5000;

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
    const says = `Nobody can sign in to the console at ${problem}. Sessions that are open go on, and tokens work.`;
    return finding("warning", "nobody-can-sign-in", says);
  });
}

const quietFinding = ({ id, seenAt }: RunningProcess): Finding =>
  finding(
    "warning",
    "crmsyncdown",
    `The process ${id} has sent no heartbeat since ${clockTime(seenAt)}: it hangs, or was killed.`,
  );

function frozenFinding(now: number, { id, frozen }: RunningProcess): Finding[] {
  if (frozen === undefined || now - frozen.to > FROZEN_NAMED_MS) return [];
  const { from, to } = frozen;
  const says = `The process ${id} was frozen from ${clockTime(from)} to ${clockTime(to)} (${duration(to - from)}): it did not run. Other processes may have repeated its work.`;
  return [finding("warning", "crmsyncprocessfrozen", says)];
}

/** What it means that processes have different values of a setting. */
const EFFECT =
  "They share the work: each change is handled by the setting of the process that takes it.";
const EFFECTS: Readonly<Record<string, string>> = {
  SERVICE_BASE_URL:
    "Those that began first send; those with another service wait until the last of them has ended.",
  APPROVALS: "An act needs a second person as soon as one of them says so.",
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
    return [finding("warning", "processes-have-different-settings", says)];
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
  return [finding("warning", "crmsyncredisslow", says)];
}

function clockFinding({ id, clockAheadMs = 0 }: RunningProcess): Finding[] {
  const off = Math.abs(clockAheadMs);
  if (off <= CLOCK_WRONG_MS) return [];
  const side = clockAheadMs > 0 ? "ahead of" : "behind";
  const says = `The clock of the process ${id} is ${duration(off)} ${side} Redis' clock: retries may come late, and certificates are checked by the clock of the machine.`;
  return [finding("warning", "the-clock-of-a-process-is-wrong", says)];
}
