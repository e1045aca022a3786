/**
 * The envelope of an event: CloudEvents 1.0 in JSON, with crmsync's own requirements. `type` says
 * what happened, `subject` is `<object>/<recordId>`, `time` is when it happened in the CRM,
 * `sequence` orders events of the same time (compared as text, or as numbers if
 * `sequencetype` is Integer), `lane` is the urgency.
 * (`source`, `id`) is the idempotency key.
 */
import { z } from "zod";
import { LANES } from "./lane.ts";
import { kindOf, problemsOf, type Problem } from "./problem.ts";
import { isNumbered, isPlaceholderTime, normalTime, WHOLE_NUMBER } from "./event-order.ts";
import { cut } from "../service-spec/characters.ts";

/** A record's id. Others (000000000000000AAA, 001*) stand for records that are not named. */
const RECORD_ID = /^(?!0{15})[A-Za-z0-9]{15}(?:[A-Za-z0-9]{3})?$/;

const CHUNK = 5;
const SUFFIXES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345";

export const isRecordId = (id: string): boolean => RECORD_ID.test(id);

/** The id with its three more characters, as the API and the change events write it. */
export function wholeId(id: string): string {
  if (id.length !== 3 * CHUNK || !isRecordId(id)) return id;
  const chunks = [0, 1, 2].map((n) => id.slice(n * CHUNK, (n + 1) * CHUNK));
  return id + chunks.map(suffixOf).join("");
}

/** Each character that is a capital letter sets one bit. */
function suffixOf(chunk: string): string {
  let bits = 0;
  for (let n = 0; n < CHUNK; n += 1) if (/[A-Z]/.test(chunk.charAt(n))) bits += 2 ** n;
  return SUFFIXES.charAt(bits);
}

/** Letters and digits of any script, signs of paths, names and addresses, single blanks; `#` before a digit. */
const ID = /^(?=.*[\p{L}\p{N}])(?![ =])(?:[\p{L}\p{M}\p{N}_.:/@+=|~-]|#(?=\p{N})|(?<! ) (?=\S))+$/u;

/** What programs write for none, or a header row for the column. Records of all these would share one crmCode. */
const NO_ID =
  /^(?:undefined|null|nan|none|nil|nat|true|false|n\/a|-1|err:\d{3}|0{8}[0-]*(?:AAA)?|array|object|(?:record[ _-]?)?id)$/i;

/** The same as a part of a crmCode: `c-undefined`. */
const NOTHING_IN = /(?:^|[-_:./ ])(?:undefined|null|NaN|\[object Object\])(?:$|[-_:./ ])/;

/** A number as a data frame or a spreadsheet has changed it: 4711.0, 1.23E+17. No number of a person is written so. */
export const isChangedNumber = (text: string): boolean =>
  /^[+-]?\d+(?:[.,]0+|[.,]\d+E[+-]?\d+|E[+-]\d+)$/i.test(text);

/** 1 234, 1/3/2026, 2026-03-01 00:00:00 */
const CHANGED =
  /^(?:\d{1,3}(?: \d{3})+|\d{1,2}([./])\d{1,2}\1(?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d(?:[T ][\d:.]+)?)$/;

/** 1-Mar, 01-mars-26, Mar-85, Mrz 85 */
const DAY_OR_YEAR =
  /^(?:\d{1,2}[-. ]{1,2}(\p{L}{3,5})\.?(?:[- ]\d{2,4})?|(\p{L}{3,5})\.?[- ]\d{2})$/u;

/** Made for the first id that may be a date: short names of months, in the languages of CRMs around here. */
let months: ReadonlySet<string> | undefined;

function isSpreadsheetDate(id: string): boolean {
  const [, day, year] = DAY_OR_YEAR.exec(id) ?? [];
  const month = day ?? year;
  // Spreadsheets write no month in capital letters: MAR-85 is a code.
  if (month === undefined || month === month.toUpperCase()) return false;
  months ??= new Set(
    ["en", "de", "fr", "it", "es", "pt", "nl"].flatMap((locale) => {
      const names = new Intl.DateTimeFormat(locale, { month: "short", timeZone: "UTC" });
      return Array.from({ length: 12 }, (_, at) => wordOf(names.format(Date.UTC(2000, at))));
    }),
  );
  const word = wordOf(month);
  return (
    months.has(word) || [...months].some((name) => name.slice(0, 3) === word) || word === "mrz"
  );
}

const wordOf = (text: string): string =>
  text
    .normalize("NFKD")
    .replaceAll(/[^\p{L}]/gu, "")
    .toLowerCase();

/** By objects of the mapping: which ids it allows instead of the grammar's (`id` in the mapping). */
export interface IdRule {
  /** In lower case. */
  readonly objects: readonly string[];
  /** Of a regular expression for the whole id. */
  readonly pattern: string;
}

/**
 * Why this cannot be the id of one record; undefined: it can.
 * @param record whose id it is: a header row that stands twice has the names of its columns as values.
 */
export function idProblem(
  subject: string,
  rules: readonly IdRule[] = [],
  record: Readonly<Record<string, unknown>> = {},
): string | undefined {
  const { object, recordId } = splitSubject(subject);
  const own = rules.find(({ objects }) => objects.includes(object.toLowerCase()));
  if (own !== undefined) {
    const allowed = new RegExp(`^(?:${own.pattern})$`, "u").test(recordId);
    return allowed ? undefined : `must match the pattern of the mapping, ${own.pattern}`;
  }
  if (Object.hasOwn(record, recordId)) return "must be the id of a record, not a column's name";
  if (hasWrongChecksum(object.toLowerCase(), recordId)) {
    return "must be the id as Salesforce writes it: its last three characters do not fit the others";
  }
  return textProblem(recordId);
}

/**
 * Why this cannot be a crmCode of one record, although the service would accept it.
 * @param ownIds the mapping says itself which ids the records have.
 */
export function codeProblem(crmCode: string, ownIds = false): string | undefined {
  if (NOTHING_IN.test(crmCode)) return "must not contain undefined, null, NaN or [object Object]";
  return ownIds ? undefined : textProblem(crmCode);
}

function textProblem(id: string): string | undefined {
  if (NO_ID.test(id)) return "must be the id of a record, not a word for none";
  if (isChangedNumber(id) || CHANGED.test(id) || isSpreadsheetDate(id)) {
    return "must be the id as the CRM writes it: a spreadsheet has changed it";
  }
  if (ID.test(id) && id.normalize("NFKC") === id.normalize("NFC")) return undefined;
  return "must consist of ordinary letters and digits, single blanks and - _ . : / @ + = | ~ (for others write `id: { pattern: … }` in the mapping)";
}

/** With or without braces, hyphens and `urn:uuid:`. */
const GUID =
  /^(?:urn:uuid:)?[{(]?([\da-f]{8})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{4})-?([\da-f]{12})[})]?$/i;

/** The first characters of ids, for each standard object of Salesforce. Ids of custom objects begin with `a`. */
const SALESFORCE: ReadonlyMap<string, RegExp> = new Map([
  ["account", /^001/],
  ["contact", /^003/],
  ["lead", /^00Q/],
]);
const CUSTOM = /^a[\dA-Za-z]{2}/;

/** The subject with its id in the one form: another form would be a second relation. */
export function canonicalSubject(subject: string): string {
  const slash = subject.indexOf("/") + 1;
  const object = subject.slice(0, slash - 1).toLowerCase();
  const id = subject.slice(slash);
  return subject.slice(0, slash) + canonicalId(object, id);
}

function canonicalId(object: string, id: string): string {
  const guid = GUID.exec(id);
  if (guid !== null) return guid.slice(1).join("-").toLowerCase();
  return isOfSalesforce(object, id) ? wholeId(id) : id;
}

function isOfSalesforce(object: string, id: string): boolean {
  const begins = SALESFORCE.get(object) ?? (object.endsWith("__c") ? CUSTOM : undefined);
  return begins?.test(id) === true && isRecordId(id) && /[A-Za-z]/.test(id);
}

/** A tool that ignores case has changed the letters: the id may be that of another record. */
const hasWrongChecksum = (object: string, id: string): boolean =>
  isOfSalesforce(object, id) && wholeId(id.slice(0, 3 * CHUNK)) !== wholeId(id);

/** The longest path that is reported: keys are the sender's own text. */
const MAX_PATH = 100;

/**
 * Finds a string, or the name of a field, with half of a surrogate pair, which is no character and
 * which other programs refuse to read; or with U+FFFD, for which a character was lost.
 * @param value nested not too deep for recursion.
 * @returns where the first one is, for instance `data.record.lastName`; undefined if there is none.
 */
function findIllFormed(value: unknown): string | undefined {
  const path = pathTo(
    value,
    (one) => typeof one === "string" && (!one.isWellFormed() || one.includes("\ufffd")),
  );
  return path === undefined ? undefined : shorten(path.replace(/^\./, ""));
}

/** Whether it has an integer that a number cannot hold, and that a parser may so have rounded. */
export const hasRounded = (value: unknown): boolean =>
  pathTo(value, (one) => Number.isInteger(one) && !Number.isSafeInteger(one)) !== undefined;

type Is = (value: unknown) => boolean;

/** Nearly every value is usable: a path is made on the way back from what is not. */
function pathTo(value: unknown, is: Is): string | undefined {
  if (typeof value !== "object" || value === null) return is(value) ? "" : undefined;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const key in fields) {
    const path = is(key) ? "" : pathTo(fields[key], is);
    if (path !== undefined) return `${Array.isArray(value) ? `[${key}]` : `.${key}`}${path}`;
  }
  return undefined;
}

const shorten = (path: string): string => cut(path, MAX_PATH).toWellFormed();

/** Finds nesting deep enough to overflow the stack of recursive code such as JSON.stringify. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  for (const key in value) {
    if (isDeeperThan(levels - 1, (value as Record<string, unknown>)[key])) return true;
  }
  return false;
}

export const EVENT_TYPES = [
  "crm.record.created",
  "crm.record.updated",
  "crm.record.deleted",
  "crm.record.restored",
  "crm.record.merged",
] as const;

/** Limits that keep one event from harming the others; far above anything a CRM sends. */
const ID_MAX = 512;
const DAY_MS = 86_400_000;
export const MAX_DEPTH = 64;

const attribute = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^\P{Cc}*$/u, { error: "must not contain control characters" });

const subject = attribute(ID_MAX)
  .regex(/^[^/]+\/.+$/, { error: "must be <object>/<recordId>", abort: true })
  .transform(canonicalSubject);

const record = z.record(z.string(), z.unknown());

export const crmEventSchema = z
  .looseObject({
    specversion: z.literal("1.0"),
    id: attribute(ID_MAX),
    source: attribute(ID_MAX),
    type: z.enum(EVENT_TYPES),
    subject,
    time: z
      .string()
      .refine((text) => normalTime(text) !== undefined, {
        error: "must be an RFC 3339 date and time with its offset",
      })
      .refine((text) => !isPlaceholderTime(text), {
        error: "must not lie before 2000: it stands for no time (leave it out)",
      })
      .optional(),
    sequence: attribute(ID_MAX).optional(),
    sequencetype: attribute(ID_MAX).optional(),
    lane: z.enum(LANES).default("live"),
    data: z
      .looseObject({
        record: record.optional(),
        /** The record may lack fields that the CRM has: what is absent is not known, what is null is empty. */
        partial: z.boolean().optional(),
        /** Instead of the record: the CRM from which it is fetched. */
        fetch: attribute(50).optional(),
        /** Whose change this is, if the event is about a part of another record: `record` is that other one. */
        of: subject
          .optional()
          .describe(
            "The record to which the event's subject belongs: the event is a change of it, and data.record is the whole record of it.",
          ),
        /** What belongs to the record, by the names under `with` of the mapping file. */
        related: record
          .optional()
          .describe(
            "The related records, by their names under `with` in the mapping file: a record, a list of them, or null.",
          ),
        /** For a merge: subjects of the records that were merged into this one. */
        merged: z.array(subject).max(100).optional(),
      })
      .optional(),
  })
  .superRefine((event, context) => {
    const { of, related } = event.data ?? {};
    const needsRecord =
      (event.type !== "crm.record.deleted" && event.type !== "crm.record.restored") ||
      of !== undefined ||
      related !== undefined;
    if (needsRecord && event.data?.record === undefined && event.data?.fetch === undefined) {
      context.addIssue({
        code: "custom",
        path: ["data", "record"],
        message: `must be the whole CRM record${of === undefined ? "" : ` of ${of}`}, as an object (${event.type})`,
      });
    }
    if (isNumbered(event) && !WHOLE_NUMBER.test(event.sequence ?? "0")) {
      context.addIssue({
        code: "custom",
        path: ["sequence"],
        message: "must be a whole number of at most 18 digits, because sequencetype is Integer",
      });
    }
    if (event.type === "crm.record.merged" && (event.data?.merged ?? []).length === 0) {
      context.addIssue({
        code: "custom",
        path: ["data", "merged"],
        message: "must list the subjects of the records that were merged into this one",
      });
    }
  });

/** An event with a valid envelope; `data.record` is unchanged, as the CRM sent it. */
export type CrmEvent = z.output<typeof crmEventSchema>;

export type ParsedEvent =
  | { readonly ok: true; readonly event: CrmEvent }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/**
 * Checks one envelope.
 * @param now by the clock of Redis where it is known, in ms since the epoch: a `time` more than a day ahead of it
 *   is rejected, since it would supersede every real change of that record until then.
 * @param ids of the mapping; "any": they are checked later, where the mapping is known.
 */
export function parseEvent(
  value: unknown,
  now: number,
  ids: readonly IdRule[] | "any" = [],
): ParsedEvent {
  if (isDeeperThan(MAX_DEPTH, value)) {
    const rule = `must not be nested deeper than ${MAX_DEPTH} levels`;
    return { ok: false, problems: [{ field: "", rule, kind: kindOf(value) }] };
  }
  const illFormed = findIllFormed(value);
  if (illFormed !== undefined) {
    const rule =
      "must be well-formed text: it has half of a surrogate pair, or the character U+FFFD of a wrong encoding";
    return { ok: false, problems: [{ field: illFormed, rule, kind: "ill-formed text" }] };
  }
  const given = withoutNulls(value);
  const parsed = crmEventSchema.safeParse(given);
  if (!parsed.success) return { ok: false, problems: problemsOf(parsed.error, given) };
  const problems = ids === "any" ? [] : idProblems(parsed.data, ids);
  if (problems.length > 0) return { ok: false, problems };
  const event = asWhole(parsed.data);
  if (event.time !== undefined && Date.parse(event.time) > now + DAY_MS) {
    const rule = "must not lie more than a day ahead of the clock of Redis";
    return { ok: false, problems: [{ field: "time", rule, kind: "a later time" }] };
  }
  return { ok: true, event };
}

function idProblems({ subject, data }: CrmEvent, ids: readonly IdRule[]): Problem[] {
  const { merged = [], of, record: own } = data ?? {};
  const named = [
    { field: "subject", one: subject, of: of === undefined ? own : undefined },
    ...(of === undefined ? [] : [{ field: "data.of", one: of, of: own }]),
    ...merged.map((one, at) => ({ field: `data.merged[${at}]`, one, of: undefined })),
  ];
  return named.flatMap(({ field, one, of: record }) => {
    const rule = idProblem(one, ids, record);
    return rule === undefined ? [] : [{ field, rule, kind: kindOf(one) }];
  });
}

/** A change of a part is one of the whole record, with all that belongs to it: also when the part was deleted. */
function asWhole(event: CrmEvent): CrmEvent {
  const { merged, related, ...data } = event.data ?? {};
  const { of, record: own } = data;
  if (of === undefined && related === undefined) return event;
  const whole = { ...data, ...(own !== undefined && { record: { ...own, ...related } }) };
  if (of !== undefined) return { ...event, type: "crm.record.updated", subject: of, data: whole };
  return { ...event, data: { ...whole, ...(merged !== undefined && { merged }) } };
}

/** A sender may write an attribute that it does not set as null (CloudEvents, JSON format, 2.2). */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value);
  if (entries.every(([, attribute]) => attribute !== null)) return value;
  return Object.fromEntries(entries.filter(([, attribute]) => attribute !== null));
}

/** Splits `subject`: `contact/4711` is object `contact`, record `4711`. */
export function splitSubject(subject: string): { object: string; recordId: string } {
  const slash = subject.indexOf("/");
  return { object: subject.slice(0, slash), recordId: subject.slice(slash + 1) };
}

/** The subject of what may be no valid event; undefined: it names none. */
export function subjectIn(value: unknown): string | undefined {
  const { subject } = (value ?? {}) as { readonly subject?: unknown };
  return typeof subject === "string" ? subject : undefined;
}
