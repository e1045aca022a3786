/** Checks the processes, the queues and the ledger, as Redis knows them. */
import { Heartbeats, ROLES } from "../state/heartbeats.ts";
import { keysOf } from "../state/keys.ts";
import { clockTime } from "../status/clock-time.ts";
import { missingRoles } from "../status/backlog.ts";
import type { Finding } from "../status/finding.ts";
import { notificationFindings } from "../status/notification-findings.ts";
import { processFindings } from "../status/process-findings.ts";
import type { Readings } from "../status/readings.ts";
import { areProcessesUnknown } from "../status/rejected-writes.ts";
import {
  doubtText,
  TENANT_UNKNOWN,
  tokenDoubtsIn,
  unusableFindings,
} from "../status/secret-findings.ts";
import { stopsIn, type StopReason } from "../status/stops.ts";
import type { Stores } from "../status/stores.ts";
import { checkAuditTrails } from "./audit.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** Stops that no other line tells. A denial is none of them: the doctor asks the service itself. */
const STOPS: ReadonlySet<StopReason | undefined> = new Set(["unavailable", "throttled"] as const);

export function checkProcesses(readings: Readings): Check[] {
  const { deadLetters, fetchFailures, limited, paused, processes, warmUp } = readings;
  const versions = [...new Set(processes.map(({ version }) => version))];
  const checks = [
    areProcessesUnknown(readings)
      ? warn(
          "processes",
          "not known: Redis rejects writes, so no process can send its heartbeat",
          "See the lines about Redis; run it again after that.",
        )
      : checkRoles(readings),
    ...stopsIn(readings)
      .filter(({ reason }) => STOPS.has(reason))
      .map(({ runbook, says }) => fail("sending", says, `See docs/runbook.md#${runbook}.`)),
    ...checkAuditTrails(readings),
    ...processFindings(readings).map(warnOf("process")),
    ...unusableFindings(readings).map(warnOf("secret")),
    ...tokenDoubtsIn(readings).map(({ id, doubt }) =>
      fail(
        "tenant",
        `${doubtText(doubt)}. The process ${id} sends nothing with it.`,
        `See docs/runbook.md#${TENANT_UNKNOWN}.`,
      ),
    ),
    ...notificationFindings(readings).map(warnOf("notifications")),
    deadLetters === 0
      ? ok("dead letters", "none")
      : warn(
          "dead letters",
          `${deadLetters} wait for a person`,
          "crmsync dead list shows the field, the rule and the remedy of each.",
        ),
    warmUp.state === "done"
      ? ok("ledger", "warm")
      : warn(
          "ledger",
          warmUp.state === "cold" ? "cold: listing kept failing" : "not warmed yet",
          "A change may cost a second request until it is warm. It warms by itself once the service can be listed.",
        ),
  ];
  if (paused.length > 0) {
    checks.push(
      fail(
        "queues",
        `${paused.join(" and ")} paused through BullMQ`,
        "Resume it with BullMQ's queue.resume(), or in the tool that paused it.",
      ),
    );
  }
  if (limited.length > 0) {
    checks.push(
      warn(
        "queues",
        `somebody has limited ${limited.join(" and ")} through BullMQ`,
        "See docs/runbook.md#crmsyncqueuepaused.",
      ),
    );
  }
  for (const { crm, why } of fetchFailures) {
    checks.push(
      fail(
        "records of the CRM",
        `${crm} does not return them (${why})`,
        `Correct the address and the credentials of ${crm}, then restart; or wait, when its API is down.`,
      ),
    );
  }
  if (versions.length > 1) {
    checks.push(
      warn(
        "versions",
        `${versions.join(" and ")} are running at the same time`,
        "Finish the roll-out.",
      ),
    );
  }
  return checks;
}

/** A finding of the status as a check. */
const warnOf =
  (name: string) =>
  ({ says, runbook }: Finding): Check =>
    warn(name, says, `See ${runbook}.`);

function checkRoles(readings: Readings): Check {
  const { processes } = readings;
  const missing = processes.length === 0 ? ROLES : missingRoles(readings);
  if (missing.length === 0) return withAllRoles(processes);
  return fail(
    "processes",
    `no process has the role ${missing.join(", ")}${lostText(readings)}`,
    "Start crmsync, or a process with the missing --roles.",
  );
}

/** Without http, events can only be added by BullMQ clients and commands. */
function withAllRoles(processes: Readings["processes"]): Check {
  const running = `${processes.length} running`;
  return processes.some(({ roles }) => roles.includes("http"))
    ? ok("processes", `${running}, with all roles`)
    : warn(
        "processes",
        `${running} with the roles intake and sync; none has http, so no events come by HTTP`,
        "Start a process with --roles http, unless all events come by BullMQ or crmsync push.",
      );
}

function lostText({ lost, processes }: Readings): string {
  if (lost === undefined || processes.length > 0) return "";
  return `; the last heartbeat was of ${lost.id} at ${clockTime(lost.seenAt)}`;
}

/** Keys looked at for another prefix, at most: a large Redis must not be scanned for minutes. */
const MAX_SCANNED = 200_000;
const SCAN_COUNT = 10_000;

/** Keys that hold changes, by the end of their names. */
const HOLDS_CHANGES =
  /^(.+):(?:unsynced:(?:live|bulk)|thin-events|crm-events:(?:wait|paused|prioritized|delayed|active))$/;

/**
 * Finds changes that wait under another QUEUE_PREFIX, where no process takes them.
 * @param deadlineMs after this time the search ends, and says how far it got.
 */
export async function checkOtherPrefixes(
  { config, redis }: Stores,
  deadlineMs: number,
): Promise<Check[]> {
  const startedAt = performance.now();
  const isLate = () => performance.now() - startedAt > deadlineMs;
  const found = new Set<string>();
  let cursor = "0";
  let scanned = 0;
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", SCAN_COUNT);
    cursor = next;
    scanned += SCAN_COUNT;
    for (const key of keys) {
      const [, prefix = config.QUEUE_PREFIX] = HOLDS_CHANGES.exec(key) ?? [];
      if (prefix !== config.QUEUE_PREFIX) found.add(prefix);
    }
  } while (cursor !== "0" && scanned < MAX_SCANNED && !isLate());
  const checks: Check[] = [];
  if (cursor !== "0") {
    checks.push(
      warn(
        "queue prefix",
        `only the first ${scanned} keys of Redis were looked at for changes under another QUEUE_PREFIX`,
        "Was QUEUE_PREFIX ever changed? Run the doctor with the former one: it says whether changes wait there.",
      ),
    );
  }
  const running = await Promise.all(
    [...found].map((prefix) => new Heartbeats(redis, keysOf(prefix)).running()),
  );
  for (const [index, prefix] of [...found].entries()) {
    // Another tenant's processes take care of it.
    if ((running[index] ?? []).length > 0) continue;
    checks.push(
      warn(
        "queue prefix",
        `changes wait under QUEUE_PREFIX ${prefix}, and no process runs there`,
        `Was QUEUE_PREFIX changed? Start a process with QUEUE_PREFIX=${prefix} until they are sent. If they are not needed, delete the keys that begin with ${prefix}:.`,
      ),
    );
  }
  return checks;
}
