/**
 * The order of two events of one record: time, then sequence (as text, or as whole numbers), then arrival. It is one text whose
 * bytes sort in that order, so that a script in Redis can compare two of them.
 */
import { isObject } from "./problem.ts";
import { createHmac, hash, type KeyObject } from "node:crypto";

const RFC3339 = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-]\d{2}:\d{2})$/;

/** Digits of a second's fraction; CRMs send 0 to 7. */
const FRACTION_DIGITS = 9;

/** Digits of an arrival number, as many as the largest safe integer has. */
const ARRIVAL_DIGITS = 16;

/** A sender's clock may be ahead by this much before its times count as wrong, ms. */
const TOLERANCE_MS = 1000;

/** Sorts before every character that an attribute may contain. */
const SEPARATOR = "\t";

/** The time as UTC with nine digits of fraction, or undefined when it is not RFC 3339. */
export function normalTime(text: string): string | undefined {
  if (isIsoTime(text)) return `${text.slice(0, -1)}000000Z`;
  const match = RFC3339.exec(text);
  if (match === null) return undefined;
  const [, date = "", clock = "", fraction = "", offset = ""] = match;
  const seconds = new Date(`${date}T${clock}${offset.toUpperCase()}`);
  if (Number.isNaN(seconds.getTime())) return undefined;
  // Date turns 31 April into 1 May: reject days that do not exist.
  if (new Date(`${date}T00:00:00Z`).toISOString().slice(0, 10) !== date) return undefined;
  const utc = seconds.toISOString();
  if (utc.length !== "0000-00-00T00:00:00.000Z".length) return undefined;
  return `${utc.slice(0, 19)}.${fraction.slice(0, FRACTION_DIGITS).padEnd(FRACTION_DIGITS, "0")}Z`;
}

/** What programs write for no time lies before every change of a CRM: 0001-01-01, 1753, 1900, 1970. */
export const isPlaceholderTime = (time: string): boolean =>
  Date.parse(time) < Date.parse("2000-01-01T00:00:00Z");

/** A time that can be checked without the calendar: each month has the days 1 to 28. */
const EASY_ISO_TIME =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/** Whether it is written as `Date.toISOString` does, with milliseconds; most senders write it so. */
function isIsoTime(text: string): boolean {
  if (EASY_ISO_TIME.test(text)) return true;
  const at = text.length === "0000-00-00T00:00:00.000Z".length ? Date.parse(text) : Number.NaN;
  return !Number.isNaN(at) && new Date(at).toISOString() === text;
}

/**
 * When the change happened, as far as clocks are to be believed: no event happens later than it
 * arrives. Two events of a clock that is ahead keep their order, since both times of arrival grow.
 * @param sentAt when the sender says that it sent the event, ms.
 * @param arrivedAt by the clock of Redis, ms.
 */
export function believableTime(
  time: string | undefined,
  sentAt: number,
  arrivedAt: number,
): string {
  if (time === undefined) return isoTime(Math.min(sentAt, arrivedAt));
  const latest = arrivedAt + TOLERANCE_MS;
  return Date.parse(normalTime(time) ?? "") > latest ? isoTime(latest) : time;
}

/** A `sequence` that can be compared as a number. */
export const WHOLE_NUMBER = /^[+-]?\d{1,18}$/;

/** Of whole numbers, the greater one sorts later. */
const sortable = (sequence: string): string =>
  String(BigInt(sequence.replace("+", "")) + 10n ** 18n).padStart(19, "0");

/** Whether `sequence` is a number (CloudEvents, sequence extension): its texts do not sort so. */
export const isNumbered = (event: { readonly sequencetype?: string | undefined }): boolean =>
  event.sequencetype?.toLowerCase() === "integer";

const isoTime = (at: number): string => new Date(at).toISOString();

/**
 * @param arrival number that grows with every event received; decides between equal events.
 * @throws RangeError when `time` is not RFC 3339: callers pass only parsed events.
 */
export function eventOrder(
  event: { time: string; sequence?: string | undefined; sequencetype?: string | undefined },
  arrival: number,
): string {
  const time = normalTime(event.time);
  if (time === undefined) throw new RangeError("eventOrder: time is not RFC 3339");
  const arrived = String(arrival).padStart(ARRIVAL_DIGITS, "0");
  const { sequence = "" } = event;
  const place = isNumbered(event) && sequence !== "" ? sortable(sequence) : sequence;
  return [time, place, arrived].join(SEPARATOR);
}

/** An event's identity as a hash of 22 characters, from which `source` and `id` cannot be read. */
export function eventKey(event: { readonly source: string; readonly id: string }): string {
  return hash("sha256", `${event.source}\u0000${event.id}`, "base64url").slice(0, 22);
}

/** Source and key of something that may not be an event. */
export function identityOf(
  value: unknown,
  fallbackKey: string,
): { readonly source: string | undefined; readonly key: string } {
  const { source, id } = (value ?? {}) as { readonly source?: unknown; readonly id?: unknown };
  const known = typeof source === "string" && typeof id === "string";
  return {
    source: typeof source === "string" ? source.toWellFormed() : undefined,
    key: known ? eventKey({ source, id }) : fallbackKey,
  };
}

/** What an event says, as a hash: a second delivery says the same, another change with the same id does not. */
export type ContentHash = (event: object) => string;

/** Characters of base64url that are kept: 72 bits. */
const CONTENT_LENGTH = 12;

/** @param key without it, values could be guessed back from the hash. */
export function contentHashWith(key: Buffer | undefined): ContentHash {
  return (event) => {
    const { data, id, sequence, source, subject, time, type } = event as Record<string, unknown>;
    // A sender may write what it does not set as null.
    const said = [source, id, type, subject, time, sequence, data].map((part) => part ?? null);
    const text = JSON.stringify(said, (_name, value: unknown) => inOrder(value));
    return hashWith(key, text, CONTENT_LENGTH);
  };
}

/** The first characters of a hash of the text, or of its HMAC. */
export function hashWith(
  key: Buffer | KeyObject | undefined,
  text: string,
  length: number,
): string {
  const whole =
    key === undefined
      ? hash("sha256", text, "base64url")
      : createHmac("sha256", key).update(text).digest("base64url");
  return whole.slice(0, length);
}

const inOrder = (value: unknown): unknown =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;
