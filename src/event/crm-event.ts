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
import { isNumbered, normalTime, WHOLE_NUMBER } from "./event-order.ts";
import { cut } from "../service-spec/characters.ts";

// Ids of Salesforce: 15 characters, and three more that protect the case of their letters.

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

// Ids of records: those that are none, and the one form of an id that a CRM writes in several.

/**
 * What a program writes in the place of a value: an error of a spreadsheet, in any language (#REF!, #¡VALOR!, #N/D,
 * Err:502), an object, a placeholder that a template has not filled.
 */
const MARK =
  /^(?:#[¡¿]?\p{Lu}[\p{Lu}\d/]*[!?]|#N\/[ABD]|#NV|#GETTING_DATA|#{3,}|(?:Err|Fehler|Erreur|Errore):\d{3}|\[object \w+\]|undefined|\{\{.*\}\}|\{!.*\}|\$\{.*\}|\*\|.*\|\*)$/u;

export const isMark = (text: string): boolean => MARK.test(text);

/** A dash, a question mark, an empty list. */
export const hasNoLetter = (text: string): boolean => !/[\p{L}\p{N}]/u.test(text);

/** What a program writes for a value that it does not have. Records of all these would share one crmCode. */
const NOTHING =
  /^(?:undefined|null|nan|none|nil|true|false|n\/a|\(null\)|<null>|\[object object\]|#n\/a|-1|\{?0{8}[0-]*(?:AAA)?\}?)$/i;

/** The same as a part of a crmCode: `c-undefined`. */
const NOTHING_IN = /(?:^|[-_:./ ])(?:undefined|null|NaN|\[object Object\])(?:$|[-_:./ ])/;

/** A spreadsheet shows long numbers so: `1.23E+17` is many ids. */
const SCIENTIFIC = /^[+-]?\d+(?:[.,]\d+E[+-]?|E[+-])\d+$/i;
const DECIMAL = /^\d+[.,]0+$/;
const GROUPED = /^\d{1,3}(?:[,'’]\d{3})+$/;

/** Invisible characters, and spaces other than the normal one. */
const INVISIBLE = /[\p{Cf}\p{Zl}\p{Zp}]|(?! )\p{Zs}/u;

/** Why this cannot be the id of one record; undefined: it can. */
export function idProblem(id: string): string | undefined {
  const text = id.trim();
  if (NOTHING.test(text) || isMark(text) || hasNoLetter(text)) {
    return "must be the id of a record, not a word for none";
  }
  if (SCIENTIFIC.test(id)) return "must be the whole id: a spreadsheet has shortened the number";
  if (DECIMAL.test(id) || GROUPED.test(id)) {
    return "must be the id as the CRM writes it: a spreadsheet has changed the number";
  }
  if (id.startsWith("=")) return "must be the id itself, not a formula of a spreadsheet";
  if (INVISIBLE.test(id)) return "must not contain invisible characters";
  if (id.normalize("NFKC") !== id.normalize("NFC")) {
    return "must be written in ordinary letters and digits";
  }
  if (text !== id) return "must not begin or end with a blank";
  return undefined;
}

/** Why this cannot be a crmCode of one record, although the service would accept it. */
export const codeProblem = (crmCode: string): string | undefined =>
  NOTHING_IN.test(crmCode)
    ? "must not contain undefined, null, NaN or [object Object]"
    : idProblem(crmCode);

const GUID = /^\{?([\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})\}?$/i;

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
  const [, guid] = GUID.exec(id) ?? [];
  if (guid !== undefined) return guid.toLowerCase();
  const begins = SALESFORCE.get(object) ?? (object.endsWith("__c") ? CUSTOM : undefined);
  return begins?.test(id) === true && isRecordId(id) && /[A-Za-z]/.test(id) ? wholeId(id) : id;
}

/** The longest path that is reported: keys are the sender's own text. */
const MAX_PATH = 100;

/**
 * Finds a string, or the name of a field, with half of a surrogate pair, which is no character and
 * which other programs refuse to read.
 * @param value nested not too deep for recursion.
 * @returns where the first one is, for instance `data.record.lastName`; undefined if there is none.
 */
function findIllFormed(value: unknown): string | undefined {
  const path = pathTo(value, (one) => typeof one === "string" && !one.isWellFormed());
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
  .superRefine((text, context) => {
    const message = idProblem(text.slice(text.indexOf("/") + 1));
    if (message !== undefined) context.addIssue({ code: "custom", message });
  })
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
 */
export function parseEvent(value: unknown, now: number): ParsedEvent {
  if (isDeeperThan(MAX_DEPTH, value)) {
    const rule = `must not be nested deeper than ${MAX_DEPTH} levels`;
    return { ok: false, problems: [{ field: "", rule, kind: kindOf(value) }] };
  }
  const illFormed = findIllFormed(value);
  if (illFormed !== undefined) {
    const rule = "must be well-formed text: it has half of a surrogate pair";
    return { ok: false, problems: [{ field: illFormed, rule, kind: "ill-formed text" }] };
  }
  const given = withoutNulls(value);
  const parsed = crmEventSchema.safeParse(given);
  if (!parsed.success) return { ok: false, problems: problemsOf(parsed.error, given) };
  const event = asWhole(parsed.data);
  if (event.time !== undefined && Date.parse(event.time) > now + DAY_MS) {
    const rule = "must not lie more than a day ahead of the clock of Redis";
    return { ok: false, problems: [{ field: "time", rule, kind: "a later time" }] };
  }
  return { ok: true, event };
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
