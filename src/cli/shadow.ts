/** `crmsync shadow`: what would be sent, before it is. */
import { crmsync } from "../base/command.ts";
import { Command } from "commander";
import { basename } from "node:path";
import { counted } from "../base/counted.ts";
import { readConfig } from "../base/config.ts";
import { printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";
import { loadMapping } from "../intake/mapping/load-mapping.ts";
import type { Mapping } from "../intake/mapping/mapping.ts";
import type { Approval, AskedGroup } from "../core/state/approvals.ts";
import { ask, needsApproval } from "../people/approvals/decide.ts";
import { endText, namedMapping } from "../operate/status/approval-text.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import { takeReadings } from "../operate/status/readings.ts";
import type { Stores } from "../operate/status/stores.ts";
import { compareMappings, differingRules, type Difference } from "../shadow/compare-mappings.ts";
import { eachWaiting, ReportCounts, sharedOf } from "../shadow/report.ts";
import type { WouldSend } from "../records/would-send.ts";
import { openReader } from "../whole/preview/service-view.ts";
import type { FieldChange } from "../whole/preview/preview-one.ts";
import { openSnapshot } from "../whole/reconcile/open-snapshot.ts";
import { WrongUsage } from "./arguments.ts";
import { printAsked, WHY_OPTION } from "./asked.ts";
import { actorOf, recordAct, withStores } from "./operator.ts";
import { print, printJson } from "./output.ts";

interface ShadowOptions {
  readonly mapping?: string;
  readonly object?: string;
  readonly idFrom?: string;
  readonly showValues?: true;
  readonly json?: true;
  readonly ask?: true;
  readonly why?: string;
}

export function shadowCommand(): Command {
  const shadow = new Command("shadow").description(
    "show what would be sent, before it is (SEND=off)",
  );
  shadow
    .command("report")
    .description("what would be sent of all that waits; or what a new mapping would change")
    .argument("[snapshot]", "with --mapping: an export of the CRM, or a file of records")
    .option("--mapping <mapping>", "preset or file, compared with MAPPING over the snapshot")
    .option("--object <object>", "the CRM's object, for records that do not name it")
    .option("--id-from <field>", "the field that holds the records' id, when it is not id")
    .option("--show-values", "with the values: personal data, and a line in the audit trail")
    .option("--ask", "ask another person to approve the new mapping (APPROVALS=mapping)")
    .option(...WHY_OPTION)
    .option("--json", "print one line of JSON per record, and the numbers in the last one")
    .addHelpText(
      "after",
      `
Each change that waits goes the way that it would go in the daemon, up to its request: nothing is
sent and nothing is written. Fields are named by what the ledger knows; with --show-values the
service is listed (a request for each page), and both values of each field are shown. What the two
guards would hold is counted as if all were sent within an hour. With --ask the snapshot may be left
out; the numbers and the names of the rules that differ are what the other person sees.`,
    )
    .action(report);
  return shadow;
}

async function report(file: string | undefined, options: ShadowOptions): Promise<void> {
  if (options.ask && options.mapping === undefined)
    throw new WrongUsage("--ask is for the mapping that --mapping names");
  if (!options.ask && (file === undefined) !== (options.mapping === undefined)) {
    throw new WrongUsage("give both, --mapping and a snapshot, or neither");
  }
  await withStores(async (stores) => {
    await stores.clock.measure();
    if (options.showValues) await recordAct(stores, "shadow.show");
    if (options.mapping === undefined) await reportWaiting(stores, options);
    else await reportMapping(stores, file, options);
  }, readConfig());
}

async function reportWaiting(stores: Stores, { json, showValues }: ShadowOptions): Promise<void> {
  const reader = showValues ? openReader(stores.config, stores) : undefined;
  const counts = new ReportCounts();
  try {
    await eachWaiting(await sharedOf(stores), reader?.service, (one) => {
      counts.add(one);
      if (json) printJson({ ...one, since: new Date(one.since).toISOString() });
      else say(changeLines(one));
    });
  } finally {
    await reader?.close();
  }
  const { deadReasons, quota } = await takeReadings(stores);
  const { total, ...numbers } = counts;
  const { live, bulk } = total;
  const requests = live + bulk;
  const endsAt = requests === 0 ? undefined : quota.drainedAt({ live, bulk });
  const ends = endsAt === undefined ? null : new Date(endsAt).toISOString();
  if (json) printJson({ ...numbers, total: requests, endsAt: ends, deadLetters: deadReasons });
  else say(summaryLines(counts, requests, endsAt, deadReasons));
}

const say = (lines: readonly string[]): void => print(lines.map(printable).join("\n"));

const RESULTS = { skipped: "nothing to send", held: "held", rejected: "rejected" } as const;

function changeLines(one: WouldSend): string[] {
  const { crmCode, emptied, fields, kept, lane, problems, request, result, why, without } = one;
  const named = fields?.map((field) => (emptied.includes(field) ? `${field} (emptied)` : field));
  const isSent = result === "sent";
  const about = [
    isSent
      ? (named?.join(", ") ?? "fields not known without a request") || "no field differs"
      : `${RESULTS[result]}${why === undefined ? "" : ` (${why})`}`,
    ...problems.map(({ field, rule }) => `${field} ${rule}`),
    without.length > 0 && `without a value: ${without.join(", ")}`,
    kept.length > 0 && `the service keeps: ${kept.join(", ")}`,
  ].filter(Boolean);
  return [
    `${(isSent ? request : "–").padEnd(13)}  ${crmCode}${lane === "bulk" ? " (bulk)" : ""}: ${about.join("; ")}`,
    ...valueLines(one.changes),
  ];
}

const valueLines = (changes: readonly FieldChange[] = []): string[] =>
  changes.map(({ after, before, field }) => `    ${field}: ${shown(before)} → ${shown(after)}`);

const shown = (value: unknown): string => (value === undefined ? "–" : JSON.stringify(value));

/** A line of each that has some, the most frequent first. */
const countLines = (lists: Readonly<Record<string, Readonly<Record<string, number>>>>): string[] =>
  Object.entries(lists).flatMap(([label, counts]) => {
    const some = Object.entries(counts).filter(([, number]) => number > 0);
    const sorted = some.sort(([, a], [, b]) => b - a);
    return some.length === 0
      ? []
      : [`${label}: ${sorted.map(([name, number]) => `${name} ${number}`).join(", ")}`];
  });

function summaryLines(
  counts: ReportCounts,
  requests: number,
  endsAt: number | undefined,
  dead: Readonly<Record<string, number>>,
): string[] {
  const { fields, unknown, waiting } = counts;
  const fieldsBy = (kind: "changed" | "emptied") =>
    Object.fromEntries(Object.entries(fields).map(([name, of]) => [name, of[kind]]));
  const ends =
    endsAt === undefined ? "" : `, all sent by ${clockTime(endsAt)} if sending began now`;
  return [
    counted(waiting, "change waits", "changes wait"),
    ...countLines({
      "if it were sent": counts.results,
      requests: counts.requests,
      "fields that would change": fieldsBy("changed"),
      "fields that would be emptied": fieldsBy("emptied"),
      "fields not known": { updates: unknown },
      "fields sent without a value": counts.without,
      "held for a person": counts.held,
      "would be rejected": counts.rejections,
      "rejected already": dead,
    }),
    requests === 0 ? "no request would be sent" : `${counted(requests, "request")}${ends}`,
  ];
}

async function reportMapping(
  stores: Stores,
  file: string | undefined,
  options: ShadowOptions,
): Promise<void> {
  const { ask: isAsked, mapping: name = "" } = options;
  await using stack = new AsyncDisposableStack();
  const [running, next] = await Promise.all(
    [stores.config.MAPPING, name].map((one) => loadMapping(one)),
  );
  if (running === undefined || next === undefined) return;
  for (const one of [running, next]) stack.defer(() => one.close());
  const approved = isAsked && (await requireAskable(stores, next));
  const compared =
    file === undefined ? undefined : await compareOver(stores, file, [running, next], options);
  if (isAsked) await askFor(stores, [running, next], approved, compared, options);
}

const OTHER_CODE = "another crmCode: the relations under the old ones stay";

type Counted = Awaited<ReturnType<typeof compareOver>>;

/** Prints each record of which they make another payload, and the numbers. */
async function compareOver(
  stores: Stores,
  file: string,
  [running, next]: readonly [Mapping, Mapping],
  options: ShadowOptions,
) {
  const { json, mapping: name = "", showValues } = options;
  if (!(await stores.tenantLists.reload())) {
    throw new UserError(`the tenant's value lists are not known yet: see ${crmsync`status`}`);
  }
  await using stack = new AsyncDisposableStack();
  const snapshot = await openSnapshot(file, stores.config.DATA_DIR);
  stack.defer(() => snapshot.close());
  const found = await compareMappings(stores, snapshot, [running, next], options, (one) => {
    if (json) printJson(documentOf(one, showValues));
    else say(differenceLines(one, showValues));
  });
  const { crmCodes, differ, fields, kinds, records } = found;
  const numbers = {
    mapping: basename(stores.config.MAPPING),
    newMapping: basename(name),
    newHash: next.hash,
    ...found,
  };
  if (json) {
    printJson(numbers);
    return found;
  }
  const beside = namedMapping({ name: numbers.newMapping, hash: next.hash });
  say([
    `${differ} of ${counted(records, "record")} differ between ${numbers.mapping} and ${beside}`,
    ...countLines({ "by field": fields, "by result": kinds }),
    ...(crmCodes > 0 ? [`! ${counted(crmCodes, "record")} would get ${OTHER_CODE}`] : []),
  ]);
  return found;
}

/** @returns the approval of the mapping that was approved last. @throws UserError where no approval is needed, or possible. */
async function requireAskable(stores: Stores, { hash, name }: Mapping) {
  if (!(await needsApproval(stores, "mapping")))
    throw new UserError("a new mapping needs no second person here: APPROVALS has no mapping");
  if (hash === undefined)
    throw new UserError(
      `${name} is a module, which may import other files that no approval covers: use a mapping file`,
    );
  const approved = await stores.approvals.approvedMapping();
  if (approved?.mapping?.hash !== hash) return approved;
  throw new UserError(
    `${name} is the approved mapping already: ${approved.asker.by} has asked for it, and it ${endText(approved)}`,
  );
}

async function askFor(
  stores: Stores,
  [running, next]: readonly [Mapping, Mapping],
  approved: Approval | undefined,
  compared: Counted | undefined,
  { json, mapping: file = "", why: reason }: ShadowOptions,
): Promise<void> {
  const { hash = "" } = next;
  const beside = {
    name: basename(stores.config.MAPPING),
    hash: running.hash,
    isApproved: approved !== undefined && approved.mapping?.hash === running.hash,
    rules: differingRules(stores.config.MAPPING, file),
    records: compared?.records ?? 0,
    differ: compared?.differ ?? 0,
  };
  const mapping = {
    hash,
    name: basename(file),
    ...(running.hash !== hash && { beside }),
    about: compared === undefined ? [] : groupsOf(compared),
  };
  const asked = { act: "mapping", mapping, reason } as const;
  const actor = await actorOf(stores);
  printAsked(await ask(stores, actor, asked, []), actor, json);
}

/** What becomes of the records, for the person who approves it. */
function groupsOf({ crmCodes, differ, fields, kinds }: Counted): AskedGroup[] {
  const ofKinds = Object.entries(kinds).map(([why, count]) => ({ why, count, fields: {} }));
  const others = differ - ofKinds.reduce((sum, { count }) => sum + count, 0);
  const codes = { why: OTHER_CODE, count: crmCodes, fields: {} };
  return [{ why: "another payload", count: others, fields }, codes, ...ofKinds]
    .filter(({ count }) => count > 0)
    .map((group) => ({ kind: "record", sources: {}, ...group }));
}

const documentOf = ({ changes, ...rest }: Difference, showValues: true | undefined) => ({
  ...rest,
  ...(showValues ? { changes } : { fields: changes.map(({ field }) => field) }),
});

function differenceLines(one: Difference, showValues: true | undefined): string[] {
  const { changes, crmCode, kind, place } = one;
  const [before = "no crmCode", after = "no crmCode"] = crmCode;
  const [from, to] = kind;
  const what =
    from === to
      ? changes.map(({ field }) => field).join(", ") || "other problems"
      : `${from} → ${to}`;
  return [
    `${place}  ${before === after ? before : `${before} → ${after}`}: ${what}`,
    ...(showValues ? valueLines(changes) : []),
  ];
}
