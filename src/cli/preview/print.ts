/** How a preview reads on a terminal. */
import { styleText } from "node:util";
import { WARNING_REASONS, type MappingWarning } from "../../mapping/mapping.ts";
import type { Preview } from "./preview-one.ts";

/** Rows of a table that are shown; the rest is counted. */
const MAX_ROWS = 40;

/** Characters of a value that are shown. */
const MAX_VALUE = 60;

const RESULT_COLOUR = { passes: "green", ignored: "yellow", "dead letter": "red" } as const;

export function printOne(preview: Preview): string {
  const lines = [
    `${styleText("bold", preview.subject)}  ${styleText(RESULT_COLOUR[preview.result], preview.result)}`,
  ];
  if (preview.crmCode !== undefined) lines.push(`  crmCode  ${preview.crmCode}`);
  for (const { field, rule, kind } of preview.problems) {
    lines.push(styleText("red", `  ✗ ${field || "the record"} ${rule} (it is ${kind})`));
  }
  for (const warning of preview.warnings) {
    lines.push(styleText("yellow", `  ! ${warning.field}: ${wordsOf(warning)}`));
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

function sendingOf(preview: Preview): string[] {
  if (preview.result !== "passes") {
    return preview.why === undefined ? [] : [`  nothing is sent: ${preview.why}`];
  }
  switch (preview.decision) {
    case undefined:
      return [
        "  would be created or updated: nobody knows which, since no Redis was reached (REDIS_URL or DATA_DIR)",
      ];
    case "create":
      return [styleText("green", "  would be created (POST)")];
    case "skip":
      return [styleText("green", `  nothing to send (${preview.why ?? "unchanged"})`)];
    case "fetch":
      return ["  its fields would be fetched (GET), then it would be updated (PUT)"];
    case "reject":
      return [];
    case "update": {
      const title = styleText("green", "  would be updated (PUT)");
      if (preview.changes === undefined) {
        return [`${title}; --ask spends one request to tell which fields change`];
      }
      const rows = preview.changes.map(
        ({ field, before, after }) =>
          `    ${field.padEnd(26)}${styleText("red", show(before))} → ${styleText("green", show(after))}`,
      );
      return rows.length === 0 ? [`${title}; no field changes`] : [title, ...rows];
    }
  }
}

const show = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

function wordsOf({ reason, value }: MappingWarning): string {
  return `${WARNING_REASONS[reason]}${value === undefined ? "" : `: ${cut(value)}`}`;
}

const cut = (text: string): string =>
  text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE - 1)}…` : text;

export interface Summary {
  readonly records: number;
  readonly passing: number;
  readonly ignored: number;
  readonly deadLetters: number;
  readonly values: readonly Row[];
  readonly problems: readonly Row[];
}

interface Row {
  readonly field: string;
  readonly reason: string;
  readonly value?: string;
  readonly records: number;
  /** Where the first of them is. */
  readonly first: string;
}

/** What a whole export comes to. */
export function summarise(previews: readonly (Preview & { readonly label: string })[]): Summary {
  const count = (result: Preview["result"]) =>
    previews.filter((preview) => preview.result === result).length;
  const values = new Map<string, Row>();
  const problems = new Map<string, Row>();
  const add = (rows: Map<string, Row>, row: Omit<Row, "records" | "first">, label: string) => {
    const key = JSON.stringify(row);
    const known = rows.get(key);
    rows.set(key, { ...row, records: (known?.records ?? 0) + 1, first: known?.first ?? label });
  };
  for (const { warnings, problems: found, label } of previews) {
    for (const warning of warnings) add(values, warning, label);
    for (const { field, rule, kind } of found)
      add(problems, { field, reason: rule, value: kind }, label);
  }
  const sorted = (rows: Map<string, Row>) =>
    [...rows.values()].toSorted((a, b) => b.records - a.records);
  return {
    records: previews.length,
    passing: count("passes"),
    ignored: count("ignored"),
    deadLetters: count("dead letter"),
    values: sorted(values),
    problems: sorted(problems),
  };
}

export function printSummary(summary: Summary): string {
  const { records, passing, ignored, deadLetters } = summary;
  const wanted = records - ignored;
  const share = wanted === 0 ? 100 : Math.floor((passing / wanted) * 1000) / 10;
  const lines = [
    `${records} records: ${styleText("green", `${passing} pass (${share} %)`)}, ${styleText("red", `${deadLetters} would be dead letters`)}, ${styleText("yellow", `${ignored} ignored`)}`,
  ];
  if (summary.problems.length > 0) {
    lines.push("", "Why records would be dead letters", ...table(summary.problems));
  }
  if (summary.values.length > 0) {
    lines.push("", "Values that were left out or not understood", ...table(summary.values));
  }
  return lines.join("\n");
}

function table(rows: readonly Row[]): string[] {
  const lines = rows.slice(0, MAX_ROWS).map(({ field, reason, value, records, first }) => {
    const words = WARNING_REASONS[reason as keyof typeof WARNING_REASONS] ?? reason;
    const shown = value === undefined ? "" : `  ${JSON.stringify(cut(value))}`;
    return `${String(records).padStart(8)} × ${field.padEnd(26)}${shown}  ${words} (first: ${first})`;
  });
  const rest = rows.length - MAX_ROWS;
  return rest > 0 ? [...lines, `         and ${rest} more; --json has all`] : lines;
}
