/** What the status finds of processes, queues and Redis, as checks; and changes under another prefix. */
import { crmsync } from "../../base/command.ts";
import type { Config } from "../../base/config.ts";
import { Heartbeats, ROLES } from "../../core/state/heartbeats.ts";
import { keysOf } from "../../core/state/keys.ts";
import type { Readings } from "../status/readings.ts";
import { TENANT_UNKNOWN } from "../status/process-findings.ts";
import { findingsIn } from "../status/findings.ts";
import { sharedSettings } from "../status/shared-settings.ts";
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
  "sending-is-off": "sending",
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
  return [
    ...(found.length === 0 ? [calm] : found),
    ...checkRunning(readings),
    checkShell(readings, config),
  ];
}

const WHOSE =
  "what is said of the configuration, secrets, files, the mapping, the service and the CRMs goes by this shell's variables; of Redis, processes, queues and changes, by what the daemon writes to Redis";

/** Of a mapping file, the content counts: the daemon may have it under another name. */
const markOf = (value: string | number) => /\((\w+)\)$/.exec(String(value))?.[1] ?? String(value);

/** Whether a running process has other settings than this shell; the quota has a line of its own. */
function checkShell({ processes }: Readings, config: Config): Check {
  const all = sharedSettings(config, new Set(ROLES), config.SERVICE_BASE_URL);
  const { QUOTA_PER_HOUR: _, ...ours } = all;
  const differ = Object.entries(ours).flatMap(([name, own]) => {
    const other = processes.find(({ settings: { [name]: its = own } = {} }) => {
      return markOf(its) !== markOf(own);
    });
    return other === undefined
      ? []
      : `${name} is ${own} here, ${other.settings?.[name]} in ${other.id}`;
  });
  if (differ.length === 0) return ok("this shell", WHOSE);
  const remedy =
    "Run the doctor with the daemon's variables, where the daemon runs (docs/deploy.md). SERVICE_BASE_URL is shown as a mark of the address.";
  return warn("this shell", `${differ.join("; ")}. So ${WHOSE}`, remedy);
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
          `Start a process with --roles http, unless all events come by BullMQ or ${crmsync`push`}.`,
        ),
    ...(versions.length < 2
      ? []
      : [
          warn("versions", `${versions.join(" and ")} are running at once`, "Finish the roll-out."),
        ]),
  ];
}

const SCAN_COUNT = 10_000;

/** Other prefixes that a line names: of many tenants, a few. */
const MOST_NAMED = 5;

/** Keys that hold changes, by the end of their names; and those of the heartbeats. */
const HOLDS_CHANGES =
  /^(.+):(?:line:(?:live|bulk|later)|thin-events|crm-events:(?:wait|paused|prioritized|delayed|active)|(heartbeats))$/;

/** Finds changes that wait under another QUEUE_PREFIX, where no process takes them; or the processes, if none is here. */
export async function checkOtherPrefixes({ config, heartbeats, redis }: Stores): Promise<Check[]> {
  const found = new Map<string, boolean>();
  for await (const keys of redis.scanStream({ count: SCAN_COUNT }) as AsyncIterable<string[]>) {
    for (const key of keys) {
      const [, prefix = config.QUEUE_PREFIX, beats] = HOLDS_CHANGES.exec(key) ?? [];
      if (prefix === config.QUEUE_PREFIX) continue;
      found.set(prefix, found.get(prefix) === true || beats === undefined);
    }
  }
  const isAlone = (await heartbeats.running()).length === 0;
  const elsewhere: string[] = [];
  const checks = [...found].map(async ([prefix, holdsChanges]): Promise<Check[]> => {
    // Another tenant's processes take care of it.
    if ((await new Heartbeats(redis, keysOf(prefix)).running()).length > 0) {
      elsewhere.push(prefix);
      return [];
    }
    if (!holdsChanges) return [];
    const says = `changes wait under QUEUE_PREFIX ${prefix}, and no process runs there`;
    const remedy = `Was QUEUE_PREFIX changed? Start a process with QUEUE_PREFIX=${prefix} until they are sent. If they are not needed, delete the keys that begin with ${prefix}:.`;
    return [warn("queue prefix", says, remedy)];
  });
  const waiting = (await Promise.all(checks)).flat();
  if (!isAlone || elsewhere.length === 0) return waiting;
  const says = `QUEUE_PREFIX is ${config.QUEUE_PREFIX} in this shell, where no process runs; processes run under ${elsewhere.toSorted().slice(0, MOST_NAMED).join(", ")}`;
  return [...waiting, warn("queue prefix", says, "Set QUEUE_PREFIX as the daemon has it.")];
}
