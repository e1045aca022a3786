/**
 * Whether a record says that the CRM has deleted it. A deletion ends a relation, so only a value that is known to
 * mean it counts as one; a value that is neither a yes nor a no is reported, and nothing is done.
 */
import type { CrmEvent } from "../../core/event/crm-event.ts";
import { kindOf, valueAt, type Problem } from "../../core/event/problem.ts";

type CrmRecord = Readonly<Record<string, unknown>>;

/** What a mapping says of a field that marks deleted records. */
export interface GoneRule {
  /** Objects of the CRM in lower case. */
  readonly objects: readonly string[];
  /** Path of names in the record. */
  readonly field: string;
  /** The values that mean deleted; undefined: those of `isGone`. With them, every other value means that it is there. */
  readonly values?: readonly string[] | undefined;
}

const YES: ReadonlySet<string> = new Set(["true", "1", "yes", "y", "t", "x", "deleted"]);
const NO: ReadonlySet<string> = new Set(["false", "0", "no", "n", "f", ""]);

/** A clock of a CRM may be ahead of ours by this much, ms. */
const AHEAD_MS = 300_000;
const DAY_MS = 86_400_000;

/**
 * @param now ms since the epoch
 * @returns true: deleted; false: there; undefined: the value is neither, and nothing may follow from it.
 */
export function isGone(value: unknown, now: number): boolean | undefined {
  if (value === undefined || value === null) return false;
  if (typeof value === "boolean") return value;
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const text = String(value).trim().toLowerCase();
  if (YES.has(text)) return true;
  if (NO.has(text)) return false;
  const at = timeIn(text);
  if (at === undefined) return undefined;
  if (at === "none" || ZEROS.some((zero) => Math.abs(at - zero) < DAY_MS)) return false;
  return at <= now + AHEAD_MS ? true : undefined;
}

/** The first day of a program's calendar stands for no time, in whatever zone it was written. */
const ZEROS = ["0001-01-01", "1753-01-01", "1899-12-30", "1900-01-01", "1970-01-01"].map((day) =>
  Date.parse(day),
);

const ISO =
  /^(\d{4})-(\d\d)-(\d\d)(?:[t ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(z|[+-]\d\d:?\d\d)?)?$/;
const COMPACT = /^(\d{4})(\d\d)(\d\d)$/;
const DOTTED = /^(\d\d)\.(\d\d)\.(\d{4})(?: (\d\d:\d\d(?::\d\d)?))?$/;
/** Seconds or milliseconds since 1970, in the years 2001 to 2286. */
const EPOCH = /^[1-9]\d{9}(\d{3})?$/;

/** A time without an offset is read as UTC. @returns ms; "none" for 0000-00-00; undefined: it is no time */
function timeIn(text: string): number | "none" | undefined {
  const epoch = EPOCH.exec(text);
  if (epoch !== null) return Number(text) * (epoch[1] === undefined ? 1000 : 1);
  const dotted = DOTTED.exec(text);
  const [, year = "", month = "", day = "", clock = "00:00", offset = "z"] =
    dotted === null
      ? (ISO.exec(text) ?? COMPACT.exec(text) ?? [])
      : [text, dotted[3], dotted[2], dotted[1], dotted[4]];
  if (year === "") return undefined;
  const date = `${year}-${month}-${day}`;
  if (date === "0000-00-00") return "none";
  const at = Date.parse(`${date}T${clock}${offset.toUpperCase()}`);
  // Date turns 31 April into 1 May.
  const isDay = new Date(`${date}T00:00Z`).getUTCDate() === Number(day);
  return Number.isNaN(at) || !isDay ? undefined : at;
}

/** Names in small letters without signs: deletedAt, deleted_at, IsDeleted, is_deleted, … */
const NAME =
  /^(?:is|soft)*deleted$|^(?:soft)?(?:deleted(?:at|on|date|time|datetime|timestamp)|date(?:time)?deleted)$/;

const lettersOf = (name: string): string => name.replaceAll(/[^a-z]/gi, "").toLowerCase();

/** Fields that mean it in one CRM, and something else in others, by the beginning of the source. */
const OWN: readonly (readonly [source: string, saysGone: (record: CrmRecord) => boolean])[] = [
  ["/hubspot/", ({ archived }) => archived === true],
  ["/pipedrive/", ({ active_flag: isActive }) => isActive === false],
];

/** A value that should say whether the record is deleted, and does not. */
export interface GoneUnclear extends Problem {
  readonly value: unknown;
}

export interface GoneContext {
  /** Of the event that brought the record. */
  readonly source: string;
  /** The CRM's object. */
  readonly object: string;
  /** Of the mapping. */
  readonly rules?: readonly GoneRule[] | undefined;
  /** ms since the epoch */
  readonly now: number;
}

/** @returns whether the record says that it is deleted; a problem where that cannot be understood. */
export function saysGone(record: CrmRecord, context: GoneContext): boolean | GoneUnclear {
  const { now, object, rules = [], source } = context;
  if (OWN.some(([crm, saysIt]) => source.startsWith(crm) && saysIt(record))) return true;
  // This is the form of a record in HubSpot's API. The event may have another source.
  if (typeof record["properties"] === "object" && record["archived"] === true) return true;
  const own = rules.filter(({ objects }) => objects.includes(object.toLowerCase()));
  const said = own.map(({ field, values }) => {
    const value = valueAt(record, field.split("."));
    return { field, value, is: isGoneBy(values, value, now) };
  });
  for (const [field, value] of Object.entries(record)) {
    if (!NAME.test(lettersOf(field)) || own.some((rule) => rule.field === field)) continue;
    said.push({ field, value, is: isGone(value, now) });
  }
  if (said.some(({ is }) => is === true)) return true;
  const unclear = said.find(({ is }) => is === undefined);
  if (unclear === undefined) return false;
  const { field, value } = unclear;
  return { field: `data.record.${field}`, rule: RULE, kind: kindOf(value), value };
}

const RULE =
  "must say whether the record is deleted: true, yes, 1 or a time that is not in the future; or false, no, 0 or nothing. What other values mean, the mapping says under `gone`";

export function isGoneBy(
  values: readonly string[] | undefined,
  value: unknown,
  now: number,
): boolean | undefined {
  if (values === undefined) return isGone(value, now);
  if (typeof value === "string") return values.includes(value);
  return values.includes(JSON.stringify(value ?? ""));
}

/**
 * An event whose record says that it is deleted is a deletion, whatever its type says; a restoration is believed.
 * @param event with a valid envelope
 * @returns `unclear` where the record's word cannot be understood: the event is then as it was
 */
export function asDeletion(
  event: CrmEvent,
  rules: readonly GoneRule[] | undefined,
  now: number,
): { readonly event: CrmEvent; readonly unclear?: GoneUnclear } {
  const { data, source, subject, type } = event;
  if (type === "crm.record.deleted" || type === "crm.record.restored") return { event };
  if (data?.record === undefined) return { event };
  const object = subject.slice(0, subject.indexOf("/"));
  const says = saysGone(data.record, { source, object, rules, now });
  if (typeof says === "object") return { event, unclear: says };
  return { event: says ? { ...event, type: "crm.record.deleted" } : event };
}

/** Names that look like a mark of deleted records, for people to judge: nothing follows from them. */
const LIKE_A_MARK = /delet|remov|archiv|trash|recycl|change_?type|loevm/i;

/** @returns names in a record that look like a mark of deleted records, and that nothing reads. */
export const unreadMarks = (names: Iterable<string>, reads: (name: string) => boolean): string[] =>
  [...new Set(names)].filter(
    (name) => LIKE_A_MARK.test(name) && !NAME.test(lettersOf(name)) && !reads(name),
  );
