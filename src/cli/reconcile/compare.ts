/** The dry run, with its progress and its result on the terminal. */
import { crmsync } from "../../base/command.ts";
import { relative, resolve } from "node:path";
import { UserError } from "../../base/user-error.ts";
import {
  compareSnapshot,
  type Findings,
  type Outlook,
  type CompareOptions,
} from "../../whole/reconcile/compare-snapshot.ts";
import type { OpenSnapshot, CrmListing } from "../../whole/reconcile/open-snapshot.ts";
import type { OpenPlan } from "../../whole/reconcile/plan-file.ts";
import type { Session } from "../../whole/reconcile/session.ts";
import { operatorName } from "../operator.ts";
import { showBar, print, printJson } from "../output.ts";
import { styleText } from "node:util";
import { counted } from "../../base/counted.ts";
import { acceptWords, doubtsOf, doubtText, type Stop } from "../../whole/reconcile/guards.ts";
import { refusalText } from "../../whole/reconcile/plan-record.ts";
import { WARNING_REASONS } from "../../intake/mapping/mapping.ts";
import { unreadLines } from "../../intake/mapping/unread-paths.ts";
import { AGREEING, type FieldCount, type Summary } from "../../whole/reconcile/summary.ts";
import { readAs, type Encoding } from "../../intake/snapshot/scan-file.ts";
import { clockTime, duration } from "../../operate/status/clock-time.ts";
import { differText } from "../../operate/status/status-text.ts";
import { repairTimes } from "../../records/differences.ts";
import { DRIFT, DRIFT_KINDS } from "../../core/sync/drift.ts";
import type { Reading } from "../../intake/snapshot/item.ts";

/** The options of `crmsync reconcile`, as commander parses them. */
export interface ReconcileOptions
  extends
    Omit<CompareOptions, "isUnseen" | "kind" | "snapshotPath" | "source">,
    Omit<Reading, "mustBeWhole"> {
  readonly from?: string;
  readonly mapping?: string;
  readonly apply?: string | true;
  readonly yes?: true;
  readonly why?: string;
  readonly encoding?: Encoding;
  readonly whole?: true;
  readonly list?: true;
  readonly forget?: string;
  readonly json?: true;
}

/** @returns the plan; undefined when there is nothing to plan. @throws UserError when a guard stops it. */
export async function compareAll(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<OpenPlan | undefined> {
  const found = await compareWithBars(session, snapshot, options);
  const { differences, outlook, plan, stop, summary } = found;
  const repairs = await repairTimes(session.stores);
  const planned = plan && { file: shown(plan.file), entries: plan.entries };
  const { deployed, mapping } = session;
  const trial = deployed === undefined ? undefined : { mapping: mapping.name, deployed };
  printComparison(summary, outlook, {
    stop,
    planned,
    trial,
    ...options,
    listing: snapshot.listing,
    differences,
    repairs,
  });
  if (stop !== undefined) throw stopped(found, options);
  return plan;
}

async function compareWithBars(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<Findings> {
  const reading = showBar("reading the snapshot", "bytes");
  const listing = showBar("listing the service", "relations");
  let bytes = 0;
  const onBytes = (more: number) => reading.update((bytes += more), snapshot.scan.bytes);
  try {
    const isUnseen = options.apply === true && options.yes === true;
    const by = await operatorName(session.stores);
    const view = { ...options, by, isUnseen, source: "command" as const };
    return await compareSnapshot(session, { ...snapshot, onBytes }, view, {
      listing({ relations }, expected) {
        reading.stop();
        listing.update(relations, expected);
      },
      waiting(text) {
        reading.stop();
        listing.note(text);
      },
    });
  } finally {
    reading.stop();
    listing.stop();
  }
}

function stopped({ stop, terminations }: Findings, { report }: ReconcileOptions): UserError {
  const says = `stopped, and nothing was planned: ${stop?.says ?? ""}`;
  if (stop?.why !== "terminations") return new UserError(says);
  const more = stop.terminations - terminations.length;
  const rest =
    more <= 0
      ? ""
      : `\n  and ${more} more${report === undefined ? " (--report FILE lists all)" : ""}`;
  return new UserError(`${says}\n${terminations.map((code) => `  ${code}`).join("\n")}${rest}`);
}

/** A path as a person would type it. */
function shown(file: string): string {
  const near = relative(process.cwd(), resolve(file));
  return near.startsWith("..") ? resolve(file) : near;
}

interface PrintOptions extends Pick<ReconcileOptions, "accept" | "apply" | "json"> {
  readonly stop: Stop | undefined;
  /** Set when the mapping is not the daemon's. */
  readonly trial: { readonly mapping: string; readonly deployed: string } | undefined;
  readonly planned: { readonly file: string; readonly entries: number } | undefined;
  readonly listing: Pick<CrmListing, "crm" | "objects" | "requests"> | undefined;
  readonly differences: Findings["differences"];
  readonly repairs: Awaited<ReturnType<typeof repairTimes>>;
}

/** Reasons and fields that are printed, at most; the report has all of them. */
const MOST_PRINTED = 12;

function printComparison(summary: Summary, outlook: Outlook, options: PrintOptions): void {
  if (options.json) printJson(documentOf(summary, outlook, options));
  else print(linesOf(summary, outlook, options).join("\n"));
}

function documentOf(summary: Summary, outlook: Outlook, options: PrintOptions) {
  const { listing, planned, stop, trial } = options;
  const { crm, objects, requests } = listing ?? {};
  const { endsAt, ...rest } = outlook;
  return {
    ...(listing && { listing: { crm, objects, requests } }),
    ...summary,
    ...rest,
    endsAt: endsAt === undefined ? null : iso(endsAt),
    trial: trial ?? null,
    plan: planned ?? null,
    stopped: stop ?? null,
    since: options.differences?.since.map(({ at, ...one }) => ({ at: iso(at), ...one })) ?? null,
    repairs: options.repairs,
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

function linesOf(summary: Summary, outlook: Outlook, options: PrintOptions): string[] {
  const { counts, records, relations, active } = summary;
  const doubts = doubtsOf(summary, options.accept);
  const agreeing = Object.entries(AGREEING) as [keyof typeof AGREEING, string][];
  const width = String(Math.max(...Object.values(counts))).length;
  const row = (count: number, name: string, says: string) =>
    `  ${String(count).padStart(width)}  ${name.padEnd(10)}  ${styleText("dim", says)}`;
  const { trial } = options;
  return [
    ...(trial === undefined
      ? []
      : [
          `This is what the mapping ${trial.mapping} would change; the daemon has ${trial.deployed}. It is not saved.`,
        ]),
    ...listingLines(options),
    ...skippedLines(summary),
    `${records} records in the snapshot, ${relations} relations at the service (${active} active)`,
    "",
    ...agreeing
      .filter(([name]) => name === "equal" || counts[name] > 0)
      .map(([name, says]) => row(counts[name], name, name === "equal" ? "" : says)),
    ...DRIFT_KINDS.filter((kind) => counts[kind] > 0).map((kind) =>
      row(counts[kind], kind, DRIFT[kind]),
    ),
    ...detailsOf(summary),
    ...sinceLines(options),
    "",
    ...unusableLines(summary),
    ...leftOutLines(summary),
    ...unreadLines(summary.unread, MOST_PRINTED).map((line) => `! ${line}`),
    ...doubts.map((count) => `! ${doubtText(count)}.`),
    ...outlookLines(outlook, doubts, options),
  ];
}

function listingLines({ listing }: PrintOptions): string[] {
  if (listing === undefined) return [];
  const { crm, objects, requests } = listing;
  const counts = Object.entries(objects).map(([object, records]) => `${records} ${object}`);
  return [`${crm} has listed ${counts.join(", ")} in ${counted(requests, "request")}`];
}

function skippedLines({ encoding, repeated, skipped }: Summary): string[] {
  return [
    ...(encoding === "utf-8" ? [] : [readAs(encoding)]),
    ...(skipped > 0 ? [`${counted(skipped, "row")} skipped: no record in it`] : []),
    ...(repeated > 0
      ? [`${counted(repeated, "record")} skipped: the file has the same record twice`]
      : []),
  ];
}

/** Since when what differs is known, and how long it took until the last ones were gone. */
function sinceLines({ differences, repairs }: PrintOptions): string[] {
  const { since = [] } = differences ?? {};
  const { count, p50Ms, p99Ms } = repairs.all;
  const took = `${counted(count, "difference is", "differences are")} gone: half of them within ${duration(p50Ms)}, 99 % within ${duration(p99Ms)}`;
  return [
    ...(since.length === 0 ? [] : ["", differText(since, clockTime)]),
    ...(differences === undefined || count === 0 ? [] : [took]),
  ];
}

function detailsOf({ fields, reasons }: Summary): string[] {
  const named = (what: "changed" | "emptied") => {
    const counts = new Map<string, number>();
    for (const { field, [what]: n } of fields)
      if (n > 0) counts.set(field, (counts.get(field) ?? 0) + n);
    const all = [...counts].sort(([, a], [, b]) => b - a).slice(0, MOST_PRINTED);
    return all.map(([field, count]) => `${field} ${count}`).join(", ");
  };
  const [changes, losses] = [named("changed"), named("emptied")];
  const why = reasons
    .slice(0, MOST_PRINTED)
    .map((reason) => `  ${reason.count}  ${refusalText(reason)}`);
  return [
    ...(changes || losses ? [""] : []),
    ...(losses ? [`fields that would be emptied: ${losses}`] : []),
    ...(changes ? [`fields that change: ${changes}`] : []),
    ...(why.length > 0 ? ["", "records that cannot be used:", ...why] : []),
  ];
}

/** The guards judge no export that has only a few records, so a line warns of it. */
function unusableLines({ counts, records }: Summary): string[] {
  if (records === 0 || counts.invalid + counts.unmappable < records) return [];
  return [
    "! No record of the snapshot can be used: is it the right file, and are --mapping and --object right?",
  ];
}

/** What was not understood is not emptied, but it is not sent either. */
function leftOutLines({ leftOut }: Summary): string[] {
  const odd = leftOut.filter(({ reason }) => reason === "suspicious");
  const others = leftOut.filter((one) => !odd.includes(one));
  return [
    ...oddLines(odd),
    ...leftOutGroup(
      others.filter(({ sent }) => sent === undefined),
      "the service keeps what it has there",
    ),
    ...leftOutGroup(
      others.filter(({ sent }) => sent),
      "the mapping's fallback or default, or the rest of the list, is sent instead",
    ),
  ];
}

const oddLines = (odd: Summary["leftOut"]): string[] =>
  odd.map(
    ({ count, field }) =>
      `! ${counted(count, "suspicious text")} in ${field}, sent as it is (${crmsync`preview FILE`} shows each)`,
  );

function leftOutGroup(values: Summary["leftOut"], then: string): string[] {
  if (values.length === 0) return [];
  const sum = values.reduce((all, { count }) => all + count, 0);
  return [
    `! ${counted(sum, "value")} left out; ${then} (${crmsync`preview FILE`} shows them):`,
    ...values
      .slice(0, MOST_PRINTED)
      .map(({ count, field, reason }) => `  ${count}  ${field}: ${WARNING_REASONS[reason]}`),
    "",
  ];
}

function outlookLines(
  outlook: Outlook,
  doubts: readonly FieldCount[],
  { apply, planned, stop, trial }: PrintOptions,
): string[] {
  const { spent, requests, terminations, held, remaining, limit, endsAt } = outlook;
  const quota = `${counted(spent, "request")} spent; ${remaining} of ${limit} left in this hour`;
  if (requests === 0) return [`nothing to do. ${quota}`];
  const end = endsAt === undefined ? "" : `, done at ${clockTime(endsAt)} if it begins now`;
  const ending = terminations > 0 ? `, ${counted(terminations, "termination")} among them` : "";
  const lines = [`${counted(requests, "request")} needed${ending}${end}. ${quota}`];
  if (held > 0) {
    lines.push(
      `${held} of the ${counted(terminations, "termination")} will be held for a person: they are beyond TERMINATE_LIMIT (${crmsync`held list`})`,
    );
  }
  if (stop === undefined && planned !== undefined) {
    lines.push(`plan of ${counted(planned.entries, "change")}: ${planned.file}`);
    if (apply === undefined) {
      const first = trial === undefined ? "" : "start the daemon with this mapping, then ";
      lines.push(
        `to carry it out: ${first}${crmsync`reconcile --apply ${planned.file} ${acceptWords(doubts)}`}`,
      );
    }
  }
  return lines;
}
