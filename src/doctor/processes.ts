/** What the status finds of processes, queues and Redis, as checks; and changes under another prefix. */
import type { Config } from "../config.ts";
import { Heartbeats } from "../state/heartbeats.ts";
import { keysOf } from "../state/keys.ts";
import type { Readings } from "../status/readings.ts";
import { TENANT_UNKNOWN } from "../status/process-findings.ts";
import { findingsIn } from "../status/findings.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** What a finding is about, by its section of the runbook; the name of other checks is `status`. */
const NAMES: Readonly<Record<string, string>> = {
  crmsyncdown: "processes",
  crmsyncrolemissing: "processes",
  crmsyncauditfailed: "audit trail",
  crmsyncdeadletters: "dead letters",
  crmsyncnotificationsfailing: "notifications",
  crmsyncqueuepaused: "queues",
  crmsyncrecordsnotfetched: "records of the CRM",
  crmsyncredisnearlyfull: "redis memory",
  crmsyncredissavesfailing: "redis disk",
  crmsyncserviceunavailable: "sending",
  crmsyncthrottled: "sending",
  [TENANT_UNKNOWN]: "tenant",
  "the-file-of-a-secret-cannot-be-used": "secret",
  "the-ledger-is-cold-or-being-warmed": "ledger",
};

/** Sections about what the doctor asks Redis, the service and the CRMs itself. */
const OWN: ReadonlySet<string> = new Set([
  "a-crm-is-not-as-the-mapping-needs-it",
  "crmsyncaddressdenied",
  "crmsyncredisnotdurable",
  "crmsyncredisslow",
  "crmsynctokendenied",
  "crmsynctokenold",
]);

export function checkProcesses(readings: Readings, config: Config): Check[] {
  const found = findingsIn(readings, config.QUOTA_HOUR_MS).flatMap(
    ({ runbook, says, severity }): Check[] => {
      const section = runbook.replace(/^.*#/, "");
      const name = NAMES[section] ?? "status";
      if (OWN.has(section)) return [];
      return [(severity === "warning" ? warn : fail)(name, says, `See ${runbook}.`)];
    },
  );
  const calm = ok("status", "nothing stops or delays changes, or needs a person");
  return [...(found.length === 0 ? [calm] : found), ...checkRunning(readings)];
}

/** Without http, events can only be added by BullMQ clients and commands. */
function checkRunning({ processes }: Readings): Check[] {
  const versions = [...new Set(processes.map(({ version }) => version))];
  const running = `${processes.length} running`;
  if (processes.length === 0) return [];
  return [
    processes.some(({ roles }) => roles.includes("http"))
      ? ok("processes", running)
      : warn(
          "processes",
          `${running}; none has the role http, so no events come by HTTP`,
          "Start a process with --roles http, unless all events come by BullMQ or crmsync push.",
        ),
    ...(versions.length < 2
      ? []
      : [
          warn("versions", `${versions.join(" and ")} are running at once`, "Finish the roll-out."),
        ]),
  ];
}

const SCAN_COUNT = 10_000;

/** Keys that hold changes, by the end of their names. */
const HOLDS_CHANGES =
  /^(.+):(?:unsynced:(?:live|bulk)|thin-events|crm-events:(?:wait|paused|prioritized|delayed|active))$/;

/** Finds changes that wait under another QUEUE_PREFIX, where no process takes them. */
export async function checkOtherPrefixes({ config, redis }: Stores): Promise<Check[]> {
  const found = new Set<string>();
  for await (const keys of redis.scanStream({ count: SCAN_COUNT }) as AsyncIterable<string[]>) {
    for (const key of keys) {
      const [, prefix = config.QUEUE_PREFIX] = HOLDS_CHANGES.exec(key) ?? [];
      if (prefix !== config.QUEUE_PREFIX) found.add(prefix);
    }
  }
  const checks = [...found].map(async (prefix): Promise<Check[]> => {
    // Another tenant's processes take care of it.
    if ((await new Heartbeats(redis, keysOf(prefix)).running()).length > 0) return [];
    const says = `changes wait under QUEUE_PREFIX ${prefix}, and no process runs there`;
    const remedy = `Was QUEUE_PREFIX changed? Start a process with QUEUE_PREFIX=${prefix} until they are sent. If they are not needed, delete the keys that begin with ${prefix}:.`;
    return [warn("queue prefix", says, remedy)];
  });
  return (await Promise.all(checks)).flat();
}
