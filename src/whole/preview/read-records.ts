/** Reads a file to preview: records, events or webhook bodies, one or many. */
import { isObject } from "../../core/event/problem.ts";
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { parseEvent, splitSubject, type CrmEvent } from "../../core/event/crm-event.ts";
import { saysGone, type GoneUnclear } from "../../intake/mapping/gone.ts";
import { believableTime, eventOrder } from "../../core/event/event-order.ts";
import { parseExactly, jsonFaultAt } from "../../core/event/exact-json.ts";
import { eventRules } from "../../intake/mapping/map-event-record.ts";
import { recordIds } from "../../intake/mapping/record-ids.ts";
import type { CrmRecord, EventContext, Mapping } from "../../intake/mapping/mapping.ts";
import { PathSearch, type Unread } from "../../intake/mapping/unread-paths.ts";
import { UserError } from "../../base/user-error.ts";
import { textOfUtf8 } from "../../base/utf8-text.ts";
import { type Item, listedRecords } from "../../intake/snapshot/item.ts";
import { readCsv } from "../../intake/snapshot/read-csv.ts";
import { readText as readDecoded } from "../../intake/snapshot/read-text.ts";
import { scanFile, type Encoding } from "../../intake/snapshot/scan-file.ts";
import { eventsOfBody, eventsOfText } from "./webhook-bodies.ts";

/** One record, event or webhook's event of the file. */
export interface PreviewInput {
  /** Where it is in the file, as it is printed. */
  readonly place: string;
  readonly context: EventContext;
  /** The subject of the event's own record, into which this one was merged. */
  readonly mergedInto?: string;
  /** Of an event that says when it happened: its order if it arrived now. */
  readonly order?: string;
  readonly record: CrmRecord | undefined;
  /** Of a row of CSV: a record that has all columns. */
  readonly header?: CrmRecord;
  /** The CRM from which the record is fetched, when the event does not bring it. */
  readonly fetch: string | undefined;
  /** False when the record's id is unknown: the crmCode is then not the real one. */
  readonly hasId: boolean;
}

export interface ReadOptions {
  /** The CRM's object, for records that do not name it. */
  readonly object?: string | undefined;
  readonly id?: string;
  /** The field that holds the records' id. */
  readonly idFrom?: string | undefined;
  /** The source of the events that records without one stand for. */
  readonly source?: string;
  /** How the file was saved; undefined: that is found out. */
  readonly encoding?: Encoding | undefined;
}

/** What reading needs of the mapping. */
export type RulesOfMapping = Pick<Mapping, "gone" | "ids" | "objects">;

/** Stands for an unknown id. */
const NO_ID = "unknown";

export interface ReadInputs {
  readonly inputs: readonly PreviewInput[];
  /** Lines that are not JSON, among others that are. */
  readonly unusable: readonly string[];
  /** How the file was read, if that was found out and is not UTF-8. */
  readonly guessed?: Encoding;
}

/**
 * JSON, JSON lines or CSV, in the encodings that a comparison reads.
 * @throws UserError when the file cannot be read, or the object of a record is unknown.
 */
export async function readInputs(
  file: string,
  mapping: RulesOfMapping,
  options: ReadOptions,
): Promise<ReadInputs> {
  const { text, ...guessed } = await readText(file, options.encoding);
  return { ...(await inputsOfText(file, text, mapping, options)), ...guessed };
}

/**
 * @param file names the text.
 * @throws UserError when it is empty or no text of records, or the object of a record is unknown.
 */
export async function inputsOfText(
  file: string,
  text: string,
  mapping: RulesOfMapping,
  options: ReadOptions,
): Promise<ReadInputs> {
  const [first = ""] = text.trimStart();
  if (first === "<") {
    const events = eventsOfText(text);
    if (events !== undefined) {
      return {
        inputs: events.flatMap((event) => inputsOfEvent(file, event, mapping)),
        unusable: [],
      };
    }
  }
  const { items, unusable } = looksLikeCsv(text)
    ? { items: await Array.fromAsync(readCsv(file, text, once(text))), unusable: [] }
    : parseFile(file, text);
  if (items.length === 0) throw new UserError(`${file} is empty: there is nothing to preview`);
  return {
    inputs: items.flatMap((item) => inputsOf(item, mapping, options)),
    unusable,
  };
}

/** Paths that the mapping reads and none of these records has. */
export function unreadIn(inputs: readonly PreviewInput[], mapping: Mapping): Unread[] {
  const search = new PathSearch(mapping);
  for (const { context, header, record } of inputs) search.see(context.object, record, header);
  return search.unread();
}

/** A first row of several names. */
const looksLikeCsv = (text: string): boolean =>
  /^\s*[^\s{[<][^\r\n]*[,;\t|][^\r\n]*[\r\n]/.test(text);

async function* once(text: string): AsyncGenerator<string> {
  yield text;
}

/** @throws UserError when it is neither a record, an event nor the body of a CRM's webhook. */
export function inputsOf(
  { header, place, value }: Item,
  mapping: RulesOfMapping,
  options: ReadOptions,
): PreviewInput[] {
  if (!isObject(value)) throw new UserError(`${place} is neither a record nor an event`);
  if ("specversion" in value) return inputsOfEvent(place, value, mapping);
  const sent = eventsOfBody(value);
  if (sent !== undefined) return sent.flatMap((event) => inputsOfEvent(place, event, mapping));
  return [{ ...inputOfRecord(place, value, mapping, options), ...(header && { header }) }];
}

/** @throws UserError when the object of the record is unknown. */
export function inputOfRecord(
  place: string,
  record: CrmRecord,
  mapping: RulesOfMapping,
  options: ReadOptions,
): PreviewInput {
  const object = options.object ?? objectOf(record, mapping, place);
  const known = options.id ?? idOf(record, object, options.idFrom);
  const recordId = known ?? NO_ID;
  const { source = "/preview" } = options;
  const says = saysGone(record, { source, object, rules: mapping.gone, now: Date.now() });
  if (typeof says === "object") throw unclearGone(place, says);
  const type = says ? "crm.record.deleted" : "crm.record.updated";
  const subject = recordIds().formOf(`${object}/${recordId}`);
  const context = { type, source, subject, ...splitSubject(subject) };
  return { place, context, record, fetch: undefined, hasId: known !== undefined };
}

/** The records of an event as intake handles them: those that were merged into its own come first. */
export function inputsOfEvent(
  place: string,
  value: unknown,
  mapping: RulesOfMapping,
): PreviewInput[] {
  const { asDeletion, ids } = eventRules(mapping);
  const parsed = parseEvent(value, Date.now(), ids);
  if (!parsed.ok) {
    const problems = parsed.problems.map((p) => `${p.field || "it"} ${p.rule} (it is ${p.kind})`);
    throw new UserError(`${place} is not a valid event: ${problems.join("; ")}`);
  }
  const { event, unclear } = asDeletion(parsed.event, Date.now());
  if (unclear !== undefined) throw unclearGone(place, unclear);
  const { type, source, subject, data } = event;
  const order = orderOf(event, Date.now());
  const inputOf = (one: string) => {
    const context = { type, source, subject: one, ...splitSubject(one), partial: data?.partial };
    return { place, context, record: undefined, fetch: undefined, hasId: true, ...order };
  };
  const merged = (data?.merged ?? []).map((one) => ({ ...inputOf(one), mergedInto: subject }));
  return [...merged, { ...inputOf(subject), record: data?.record, fetch: data?.fetch }];
}

export const unclearGone = (place: string, { field, rule, value }: GoneUnclear): UserError =>
  new UserError(`${place}: ${field} is ${JSON.stringify(value)}, and ${rule}`);

/** An event without a time happens when it arrives: nothing is newer. */
function orderOf(event: CrmEvent, now: number): Pick<PreviewInput, "order"> {
  if (event.time === undefined) return {};
  const time = believableTime(event.time, now, now);
  return { order: eventOrder({ ...event, time }, Number.MAX_SAFE_INTEGER) };
}

/** @throws UserError when it cannot be read, or standard input is not UTF-8. */
export async function readText(
  file: string,
  given?: Encoding,
): Promise<{ readonly text: string; readonly guessed?: Encoding }> {
  if (given === undefined) {
    const bytes = readBytes(file);
    if (file === "-" || isUtf8(bytes)) return { text: textOfUtf8(bytes, file) };
  }
  const { encoding } = await scanFile(file, file, given);
  const text = (await Array.fromAsync(readDecoded(file, encoding))).join("");
  return { text, ...(given === undefined && { guessed: encoding }) };
}

/** @throws UserError when it cannot be read. */
export function readBytes(file: string): Buffer {
  try {
    return readFileSync(file === "-" ? 0 : file);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    if (code === "EISDIR") throw new UserError(`${file} is a folder: name a file`);
    throw new UserError(`${file} cannot be read (${code})`);
  }
}

interface Parsed {
  readonly items: readonly Item[];
  readonly unusable: readonly string[];
}

function parseFile(file: string, text: string): Parsed {
  try {
    const value = listedRecords(parseExactly(text));
    if (!Array.isArray(value)) return { items: [{ place: file, value }], unusable: [] };
    const items = value.map((item: unknown, index) => ({
      place: value.length === 1 ? file : `${file}, item ${index + 1}`,
      value: item,
    }));
    return { items, unusable: [] };
  } catch {
    return parseLines(file, text);
  }
}

/** A line that is not JSON is reported, and the other lines are read. If no line before it was JSON, the file is refused. */
function parseLines(file: string, text: string): Parsed {
  const lines = text.split("\n");
  const items: Item[] = [];
  const unusable: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (line.trim() === "") continue;
    try {
      items.push({ place: `${file}, line ${index + 1}`, value: parseExactly(line) });
    } catch {
      if (items.length === 0) {
        const isLines = /^\s*\{[^\n]+\n\s*\{/.test(text);
        const from = { line: index + 1, column: 1 };
        const { line: number, column } = isLines ? jsonFaultAt(line, from) : jsonFaultAt(text);
        throw new UserError(
          `${file} is not JSON at line ${number}, column ${column} (the file must be ${EXPECTED})`,
        );
      }
      const { column } = jsonFaultAt(line);
      unusable.push(`${file}, line ${index + 1} is not JSON at column ${column}`);
    }
  }
  return { items, unusable };
}

const EXPECTED = "JSON (one record, or a list of them), JSON lines or CSV";

/** An event's subject names its object; a record alone does not always. */
function objectOf(record: CrmRecord, mapping: RulesOfMapping, place: string): string {
  const { attributes } = record;
  const type = isObject(attributes) ? attributes["type"] : undefined;
  if (typeof type === "string") return type;
  const [only] = mapping.objects;
  if (only !== undefined && mapping.objects.length === 1) return only;
  if (mapping.objects.length === 0) return "record";
  throw new UserError(
    `${place} does not say which object it is: give --object, one of ${mapping.objects.join(", ")}`,
  );
}

function idOf(record: CrmRecord, object: string, from: string | undefined): string | undefined {
  const names =
    from === undefined ? ["id", "Id", "ID", `${object}id`, `${object}_id`, "crmCode"] : [from];
  for (const name of names) {
    const value = record[name];
    if (typeof value === "string" && value !== "") return value;
    if (typeof value === "number") return String(value);
  }
  return undefined;
}
