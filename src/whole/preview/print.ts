/** How a preview reads on a terminal. */
import { styleText } from "node:util";
import { counted } from "../../base/counted.ts";
import { cut } from "../../core/service-spec/characters.ts";
import { WARNING_REASONS, type MappingWarning } from "../../intake/mapping/mapping.ts";
import type { Preview } from "./preview-one.ts";

/** Rows of a table that are shown; the rest is counted. */
const MAX_ROWS = 40;

/** Characters of a value that are shown. */
const MAX_VALUE = 100;

const RESULT_COLOUR = {
  passes: "green",
  ignored: "yellow",
  "to fetch": "yellow",
  "dead letter": "red",
} as const;

const SKIPPED: Readonly<Record<string, string>> = {
  unchanged: "the service has exactly this relation",
  superseded: "a newer state of the record is known already",
  nothing_to_terminate: "the service has no such relation, or it is terminated already",
};

const NO_REDIS =
  "is not known, because the daemon's Redis could not be reached: set DATA_DIR or REDIS_URL as for the daemon";

export function printOne(preview: Preview): string {
  const lines = [
    `${styleText("bold", preview.subject)}  ${styleText(RESULT_COLOUR[preview.result], preview.result)}`,
  ];
  if (preview.crmCode !== undefined) lines.push(`  crmCode  ${preview.crmCode}`);
  if (preview.owner !== undefined) lines.push(`  owner    ${preview.owner}`);
  for (const { field, rule, kind } of preview.problems) {
    lines.push(styleText("red", `  ✗ ${field || "the record"} ${rule} (it is ${kind})`));
  }
  for (const warning of preview.warnings) {
    lines.push(styleText("yellow", `  ! ${warning.field}: ${wordsOf(warning)}`));
  }
  if (preview.leaves !== undefined) {
    lines.push(
      styleText("yellow", `  ! it leaves the service (onLeave: terminate): ${preview.leaves}`),
    );
  }
  if (preview.payload !== undefined) {
    lines.push("  payload");
    for (const [field, value] of Object.entries(preview.payload)) {
      if (field !== "crmCode") lines.push(`    ${field.padEnd(26)}${JSON.stringify(value)}`);
    }
  }
  lines.push(...sendingOf(preview));
  return lines.join("\n");
}

export function sendingOf(preview: Preview): string[] {
  switch (preview.result) {
    case "dead letter":
      return ["  nothing would be sent: it becomes a dead letter until the record is corrected"];
    case "ignored":
      return [`  nothing would be sent: ${preview.why ?? ""}`];
    case "to fetch":
      return [
        `  the event has no record: the daemon would fetch it from ${preview.why ?? "the CRM"} first;`,
        "  to see what becomes of it, preview the record as the CRM's API returns it",
      ];
    case "passes":
      return decisionOf(preview);
  }
}

function decisionOf({ decision, why, changes, kept, status = "mapped" }: Preview): string[] {
  const end = ENDS[status];
  switch (decision) {
    case undefined:
      return [
        status === "mapped"
          ? `  would be created or updated; which of them ${NO_REDIS}`
          : `  would be ${end} (PUT) if the service has it; whether it has ${NO_REDIS}`,
      ];
    case "create":
      return [
        styleText("green", "  would be created (POST)"),
        ...(why === "not_listed"
          ? ["  or updated (PUT) if the service has it: the daemon has not listed the service yet"]
          : []),
      ];
    case "skip":
      return [styleText("green", `  nothing to send: ${SKIPPED[why ?? ""] ?? ""}`)];
    case "fetch": {
      if (kept === undefined) {
        return [styleText("green", `  would be ${end} (GET for its fields, then PUT)`)];
      }
      const how = `GET for ${kept.join(", ")}, which the service keeps, then PUT`;
      return updateOf(`  would be ${end} (${how})`, { status, changes });
    }
    case "reject":
      return [];
    case "update":
      return updateOf(`  would be ${end} (PUT)`, { status, changes });
  }
}

function updateOf(
  title: string,
  { changes, status }: Pick<Preview, "changes" | "status">,
): string[] {
  const green = styleText("green", title);
  if (changes === undefined) {
    const differs = status === "mapped" ? ": it differs from what the service has" : "";
    return [`${green}${differs}; --ask spends one request to name the fields that change`];
  }
  const rows = changes.map(
    ({ field, before, after }) =>
      `    ${field.padEnd(26)}${styleText("red", show(before))} → ${styleText("green", show(after))}`,
  );
  return [`${green}:`, ...rows];
}

const ENDS = { mapped: "updated", terminated: "terminated", active: "made active again" } as const;

const show = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

export function wordsOf({ reason, value }: MappingWarning): string {
  return `${WARNING_REASONS[reason]}${value === undefined ? "" : `: ${shorten(value)}`}`;
}

const shorten = (text: string): string =>
  text.length > MAX_VALUE ? `${cut(text, MAX_VALUE - 1)}…` : text;

/** A preview of one of many records. */
export interface PlacedPreview extends Preview {
  /** Where the record is in the file. */
  readonly place: string;
}

export type Summary = ReturnType<typeof summarise>;

/** What several records have in common. */
interface Row {
  readonly field: string;
  readonly reason: string;
  readonly records: number;
  /** The first places; of each value one. */
  readonly examples: readonly { readonly place: string; readonly value?: string | undefined }[];
}

/** Records of a row that are named. */
const MAX_EXAMPLES = 3;

/** The same where the author of the mapping needs each value, to write it into a table. */
const MAX_UNLISTED = 20;
const UNLISTED = new Set(["not_in_table", "not_in_list", "not_in_tenant_list"]);

/** One line per record, when a few are previewed together. */
export function printLine(preview: Preview): string {
  const { subject, result, crmCode, decision, why, status = "mapped" } = preview;
  const end = {
    create: ", would be created",
    update: `, would be ${ENDS[status]}`,
    fetch: `, would be ${ENDS[status]}`,
    skip: `, nothing to send: ${SKIPPED[why ?? ""] ?? ""}`,
    reject: "",
  };
  // A record that does not pass has no status.
  const unknown = status === "mapped" ? "" : `, would be ${ENDS[status]} if the service has it`;
  const doing = decision === undefined ? unknown : end[decision];
  const key = crmCode === undefined ? "" : ` as ${crmCode}`;
  return `${styleText("bold", subject)}  ${styleText(RESULT_COLOUR[result], result)}${key}${doing}`;
}

/** What a whole export comes to. */
export function summarise(previews: readonly PlacedPreview[]) {
  const count = (result: Preview["result"]) =>
    previews.filter((preview) => preview.result === result).length;
  const values = new Map<string, Row>();
  const problems = new Map<string, Row>();
  const add = (
    rows: Map<string, Row>,
    [field, reason, value]: readonly [field: string, reason: string, value?: string | undefined],
    place: string,
  ) => {
    const key = JSON.stringify([field, reason]);
    const { records, examples } = rows.get(key) ?? { records: 0, examples: [] };
    const isKnown = rows === values && examples.some((one) => one.value === value);
    const most = UNLISTED.has(reason) ? MAX_UNLISTED : MAX_EXAMPLES;
    const more = !isKnown && examples.length < most ? [{ place, value }] : [];
    rows.set(key, { field, reason, records: records + 1, examples: [...examples, ...more] });
  };
  const reasons = new Map<string, Row>();
  for (const { warnings, problems: found, place, leaves, result, why } of previews) {
    const reason = result === "ignored" ? why : leaves;
    if (reason !== undefined)
      add(reasons, [result === "ignored" ? "ignored" : "leaves", reason], place);
    for (const { field, reason, value } of warnings) {
      add(values, [field, reason, value && JSON.stringify(shorten(value))], place);
    }
    for (const { field, rule, kind } of found) add(problems, [field, rule, kind], place);
  }
  const passing = previews.filter(({ result }) => result === "passes");
  const newest = new Map(passing.map((one) => [one.crmCode, one]));
  const repeated = passing.filter((one) => newest.get(one.crmCode) !== one);
  const sorted = (rows: Map<string, Row>) =>
    [...rows.values()].toSorted((a, b) => b.records - a.records);
  return {
    records: previews.length,
    passing: passing.length,
    ignored: count("ignored"),
    toFetch: count("to fetch"),
    deadLetters: count("dead letter"),
    decisions: decisionsOf([...newest.values()]),
    statuses: statusesOf([...newest.values()]),
    /** Those that pass and have a crmCode which a later one has: one relation, so one state is sent. */
    repeated: repeated.length,
    firstRepeated: repeated[0]?.place,
    values: sorted(values),
    problems: sorted(problems),
    ignoredBecause: sorted(reasons),
  };
}

/** What would be done with those that pass; undefined where no Redis tells. */
function decisionsOf(previews: readonly Preview[]) {
  const counts = { create: 0, update: 0, skip: 0, fetch: 0 };
  for (const { decision } of previews) {
    if (decision === undefined) return undefined;
    if (decision !== "reject") counts[decision] += 1;
  }
  return counts;
}

/** What would be sent of those that pass, as far as it is known. */
function statusesOf(previews: readonly Preview[]) {
  const counts = { mapped: 0, terminated: 0, active: 0 };
  for (const { decision, status = "mapped" } of previews) {
    if (decision !== "skip") counts[status] += 1;
  }
  return counts;
}

export function printSummary(summary: Summary): string {
  const { records, passing, ignored, toFetch, deadLetters, decisions } = summary;
  const wanted = records - ignored - toFetch;
  const share = wanted === 0 ? "" : ` (${Math.floor((passing / wanted) * 1000) / 10} %)`;
  const counts = [
    styleText("green", `${passing} pass${share}`),
    styleText("red", `${deadLetters} would be dead letters`),
    styleText("yellow", `${ignored} ignored`),
    ...(toFetch > 0 ? [styleText("yellow", `${toFetch} to be fetched from the CRM`)] : []),
  ];
  const lines = [`${records} records: ${counts.join(", ")}`];
  if (decisions !== undefined && passing > 0) {
    const { create, update, skip, fetch } = decisions;
    const requests = create + update + 2 * fetch;
    const { terminated } = summary.statuses;
    const ending = terminated > 0 ? ` (${terminated} of them terminated)` : "";
    lines.push(
      `Of those that pass: ${create} would be created, ${update + fetch} updated${ending}, ${skip} need nothing; ${counted(requests, "request")} in all`,
    );
  } else if (passing > 0) {
    lines.push(undecidedText(summary));
  }
  if (summary.repeated > 0) {
    lines.push(
      `${counted(summary.repeated, "of them has", "of them have")} a crmCode that a later one has (first: ${summary.firstRepeated}): only the newest of these is sent`,
    );
  }
  const tables = [
    ["Why records would be dead letters", summary.problems],
    ["Why records are ignored, or leave the service", summary.ignoredBecause],
    ["Values that were left out or not understood", summary.values],
  ] as const;
  for (const [title, rows] of tables) {
    if (rows.length > 0) lines.push("", title, ...table(rows));
  }
  return lines.join("\n");
}

function undecidedText({ statuses }: Summary): string {
  const { mapped, ...ends } = statuses;
  const ending = Object.entries(ends).filter(([, count]) => count > 0);
  if (ending.length === 0) {
    return `Those that pass would be created or updated; which of them ${NO_REDIS}`;
  }
  const counts = [
    ...(mapped > 0 ? [`${mapped} would be created or updated`] : []),
    ...ending.map(([status, count]) => `${count} would be ${ENDS[status as keyof typeof ends]}`),
  ];
  return `Of those that pass, ${counts.join(", ")}; what the service has already ${NO_REDIS}`;
}

function table(rows: readonly Row[]): string[] {
  const lines = rows.slice(0, MAX_ROWS).map(({ field, reason, records, examples }) => {
    const words = WARNING_REASONS[reason as keyof typeof WARNING_REASONS] ?? reason;
    const named = examples.map(({ place, value }) =>
      value === undefined ? place : `${place} (${value})`,
    );
    const more = records > examples.length ? "; …" : "";
    return `${String(records).padStart(8)} × ${field.padEnd(26)}  ${words}: ${named.join("; ")}${more}`;
  });
  const rest = rows.length - MAX_ROWS;
  return rest > 0 ? [...lines, `         and ${rest} more; --json prints every record`] : lines;
}
