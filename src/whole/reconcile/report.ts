/** The report: one line for each record or relation that differs, as JSON lines or CSV. */
import { csvLine } from "../../base/csv-line.ts";
import { TryLater } from "../../base/user-error.ts";
import { writeWhole } from "../../base/write-whole.ts";
import type { Sealing } from "../../core/state/sealing.ts";
import { planRecord, refusalText, type PlanningView, type Refusal } from "./plan-record.ts";
import { emptiedIn } from "./compare.ts";
import type { SnapshotEvent } from "./read-events.ts";
import { fieldsIn, placeOf, type RecordRow, type WorkFile } from "./work-file.ts";

interface Line {
  readonly crmCode: string | null;
  readonly kind: string;
  readonly place: string | null;
  readonly fields: readonly string[];
  /** Those of the fields in which the CRM has no value, and the service has one. */
  readonly emptied: readonly string[];
  readonly problems: readonly string[];
  /** Field → value at the service and in the CRM; only where values were asked for. */
  readonly values?: Readonly<Record<string, { service: unknown; crm: unknown }>>;
}

/** What is needed to show values: they are read from the snapshot once more. */
export interface Values {
  readonly events: AsyncIterable<SnapshotEvent>;
  readonly view: PlanningView;
  readonly sealing: Pick<Sealing, "open">;
}

/** Until it is complete, an older report stays as it is. */
export async function writeReport(
  file: string,
  work: WorkFile,
  values: Values | undefined,
): Promise<void> {
  const lines = linesOf(work, values);
  const text = file.toLowerCase().endsWith(".csv") ? csvOf(lines) : jsonOf(lines);
  try {
    await writeWhole(file, text);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new TryLater(`the report ${file} cannot be written (${code})`);
  }
}

async function* linesOf(work: WorkFile, values: Values | undefined): AsyncGenerator<Line> {
  const planned = work.planned();
  if (values !== undefined) yield* linesWithValues(planned, values);
  for (const row of planned) yield lineOf(row);
  const foreign = "SELECT * FROM records WHERE kind = 'foreign' ORDER BY code";
  for (const row of work.all<RecordRow>(foreign)) yield lineOf(row);
  const unclear = "SELECT * FROM records WHERE unclear IS NOT NULL ORDER BY position";
  for (const row of work.all<RecordRow>(unclear)) {
    const lacks = fieldsIn(row.lacks);
    const fields = fieldsIn(row.unclear).filter((field) => !lacks.includes(field));
    if (fields.length === 0) continue;
    const problems = fields.map(
      (field) => `${field} was not understood; the service keeps its own`,
    );
    yield { ...lineOf(row), kind: "not_understood", fields, emptied: [], problems };
  }
  const rejects = "SELECT code, place, kind, problems FROM rejects ORDER BY position";
  for (const { code, place, kind, problems } of work.all<Reject>(rejects)) {
    const found = JSON.parse(problems) as Refusal[];
    yield {
      crmCode: code,
      kind,
      place,
      fields: found.map(({ field }) => field),
      emptied: [],
      problems: found.map((one) =>
        one.value === undefined ? `${refusalText(one)} (it is ${one.kind})` : refusalText(one),
      ),
    };
  }
}

interface Reject {
  readonly code: string | null;
  readonly place: string | null;
  readonly kind: string;
  readonly problems: string;
}

const lineOf = (row: RecordRow): Line => ({
  crmCode: row.code,
  kind: row.kind ?? "",
  place: placeOf(row),
  fields: fieldsIn(row.fields),
  emptied: emptiedIn(row),
  problems: [],
});

/** As far as the events go: what the snapshot lacks has no values. */
async function* linesWithValues(
  rows: IterableIterator<RecordRow>,
  values: Values,
): AsyncGenerator<Line> {
  let next = rows.next();
  for await (const event of values.events) {
    if (next.done === true || next.value.position === null) break;
    if (event.position !== next.value.position) continue;
    yield await withValues(next.value, event, values);
    next = rows.next();
  }
  if (next.done !== true) yield lineOf(next.value);
}

async function withValues(row: RecordRow, event: SnapshotEvent, values: Values): Promise<Line> {
  const planned = await planRecord(event, values.view);
  const crm = (planned.kind === "wanted" ? planned.body : undefined) ?? {};
  const body = row.body === null ? "{}" : await values.sealing.open(row.body, row.code);
  const service = JSON.parse(body) as Record<string, unknown>;
  const line = lineOf(row);
  const fields = row.kind === "missing" ? Object.keys(crm) : line.fields;
  const entries = fields.map((field) => [
    field,
    { service: service[field] ?? null, crm: crm[field] ?? null },
  ]);
  return { ...line, values: Object.fromEntries(entries) as NonNullable<Line["values"]> };
}

async function* jsonOf(lines: AsyncIterable<Line>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}

async function* csvOf(lines: AsyncIterable<Line>): AsyncGenerator<string> {
  yield csvLine(CSV_COLUMNS);
  for await (const line of lines) yield csvLine(cellsOf(line));
}

const CSV_COLUMNS = [
  "crmCode",
  "kind",
  "place",
  "fields",
  "problems",
  "values",
  "emptied",
] as const;

const cellsOf = (line: Line): unknown[] =>
  CSV_COLUMNS.map((column) => {
    const value = line[column];
    return Array.isArray(value) ? value.join("; ") : value;
  });
