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
import { isDeeperThan } from "./depth.ts";
import { isNumbered, normalTime, WHOLE_NUMBER } from "./event-order.ts";
import { saysGone } from "./gone.ts";
import { findIllFormed } from "./ill-formed.ts";
import { canonicalSubject, idProblem } from "./record-id.ts";

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
  const event = asDeletion(asWhole(parsed.data));
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

/** A record that says that it is deleted is: also when it comes with an update, or is in a list. */
function asDeletion(event: CrmEvent): CrmEvent {
  const { data, source, type } = event;
  if (type === "crm.record.deleted" || type === "crm.record.restored") return event;
  if (data?.record === undefined || !saysGone(data.record, source)) return event;
  return { ...event, type: "crm.record.deleted" };
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
