/** The result of a comparison, for people or as JSON. */
import { styleText } from "node:util";
import { counted } from "../../ops/counted.ts";
import type { Outlook } from "../../reconcile/compare-snapshot.ts";
import { acceptText, doubtsOf, doubtText, type Stop } from "../../reconcile/guards.ts";
import { WARNING_REASONS } from "../../mapping/mapping.ts";
import { unreadLines } from "../../mapping/unread-paths.ts";
import type { CrmListing } from "../../reconcile/open-snapshot.ts";
import { AGREEING, type FieldCount, type Summary } from "../../reconcile/summary.ts";
import { readAs } from "../../snapshot/scan-file.ts";
import { clockTime } from "../../status/clock-time.ts";
import { DRIFT, DRIFT_KINDS } from "../../sync/drift.ts";
import { print, printJson } from "../output.ts";
import type { ReconcileOptions } from "./options.ts";

interface PrintOptions extends Pick<ReconcileOptions, "accept" | "apply" | "json"> {
  readonly stop: Stop | undefined;
  /** Set when the mapping is not the daemon's. */
  readonly trial: { readonly mapping: string; readonly deployed: string } | undefined;
  readonly planned: { readonly file: string; readonly entries: number } | undefined;
  readonly listing: Pick<CrmListing, "crm" | "objects" | "requests"> | undefined;
}

/** Reasons and fields that are printed, at most; the report has all of them. */
const MOST_PRINTED = 12;

export function printComparison(summary: Summary, outlook: Outlook, options: PrintOptions): void {
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
    endsAt: endsAt === undefined ? null : new Date(endsAt).toISOString(),
    trial: trial ?? null,
    plan: planned ?? null,
    stopped: stop ?? null,
  };
}

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

function detailsOf({ fields, reasons }: Summary): string[] {
  const named = (what: "changed" | "emptied") => {
    const counts = new Map<string, number>();
    for (const { field, [what]: n } of fields)
      if (n > 0) counts.set(field, (counts.get(field) ?? 0) + n);
    const all = [...counts].sort(([, a], [, b]) => b - a).slice(0, MOST_PRINTED);
    return all.map(([field, count]) => `${field} ${count}`).join(", ");
  };
  const [changes, losses] = [named("changed"), named("emptied")];
  const why = reasons.slice(0, MOST_PRINTED).map(({ field, rule, count }) => {
    return `  ${count}  ${field || "the event"} ${rule}`;
  });
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
      `! ${counted(count, "suspicious text")} in ${field}, sent as it is (crmsync preview FILE shows each)`,
  );

function leftOutGroup(values: Summary["leftOut"], then: string): string[] {
  if (values.length === 0) return [];
  const sum = values.reduce((all, { count }) => all + count, 0);
  return [
    `! ${counted(sum, "value")} left out; ${then} (crmsync preview FILE shows them):`,
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
      `${held} of the ${counted(terminations, "termination")} will be held for a person: they are beyond TERMINATE_LIMIT (crmsync held list)`,
    );
  }
  if (stop === undefined && planned !== undefined) {
    lines.push(`plan of ${counted(planned.entries, "change")}: ${planned.file}`);
    if (apply === undefined) {
      const accept = doubts.length === 0 ? "" : ` ${acceptText(doubts)}`;
      const first = trial === undefined ? "" : "start the daemon with this mapping, then ";
      lines.push(`to carry it out: ${first}crmsync reconcile --apply ${planned.file}${accept}`);
    }
  }
  return lines;
}
