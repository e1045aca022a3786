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

/** What the mapping and the connectors know of ids (src/intake/mapping/record-ids.ts). */
export interface RecordIds {
  /**
   * The subject with its id in the one form: another form would be a second relation.
   * @param crm from which the record is to be fetched, if it is
   */
  formOf(subject: string, crm?: string): string;
  /**
   * Why this cannot be the id of one record; undefined: it can.
   * @param record whose id it is
   */
  problemOf(subject: string, record?: Readonly<Record<string, unknown>>): string | undefined;
}

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

const subject = attribute(ID_MAX).regex(/^[^/]+\/.+$/, {
  error: "must be <object>/<recordId>",
  abort: true,
});

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
 * @param ids undefined: they are checked later, where the mapping is known.
 */
export function parseEvent(value: unknown, now: number, ids?: RecordIds): ParsedEvent {
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
  const formed = ids === undefined ? parsed.data : withForms(parsed.data, ids);
  const problems = ids === undefined ? [] : idProblems(formed, ids);
  if (problems.length > 0) return { ok: false, problems };
  const event = asWhole(formed);
  if (event.time !== undefined && Date.parse(event.time) > now + DAY_MS) {
    const rule = "must not lie more than a day ahead of the clock of Redis";
    return { ok: false, problems: [{ field: "time", rule, kind: "a later time" }] };
  }
  return { ok: true, event };
}

function withForms(event: CrmEvent, ids: RecordIds): CrmEvent {
  const { data, subject } = event;
  const formOf = (one: string) => ids.formOf(one, data?.fetch);
  const { merged, of } = data ?? {};
  return {
    ...event,
    subject: formOf(subject),
    ...(data !== undefined && {
      data: {
        ...data,
        ...(of !== undefined && { of: formOf(of) }),
        ...(merged !== undefined && { merged: merged.map(formOf) }),
      },
    }),
  };
}

function idProblems({ subject, data }: CrmEvent, ids: RecordIds): Problem[] {
  const { merged = [], of, record: own } = data ?? {};
  const named = [
    { field: "subject", one: subject, of: of === undefined ? own : undefined },
    ...(of === undefined ? [] : [{ field: "data.of", one: of, of: own }]),
    ...merged.map((one, at) => ({ field: `data.merged[${at}]`, one, of: undefined })),
  ];
  return named.flatMap(({ field, one, of: record }) => {
    const rule = ids.problemOf(one, record);
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
