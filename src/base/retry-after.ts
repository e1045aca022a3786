/** Reads Retry-After and X-RateLimit-*. Source: spec, "Limits". */

/** Response headers as they came, names in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** Longer times count as garbage. */
const LONGEST_MS = 24 * 3_600_000;

/** Clocks less than this apart count as equal: `Date` has whole seconds only. */
const SKEW_MS = 2000;

/** Smaller numbers are seconds since the epoch, others milliseconds. */
const MILLISECONDS_FROM = 1e11;

/**
 * How long a 429 asks us to wait, ms; undefined when its headers say nothing usable.
 * Retry-After wins over X-RateLimit-Reset, which is that of the hour: it is no reason to wait while the
 * service itself says that requests are left in the hour.
 */
export function waitAskedMs(headers: ReplyHeaders, now: number): number | undefined {
  const isHourSpent = (remainingOf(headers) ?? 0) === 0;
  return retryAfterMs(headers, now) ?? (isHourSpent ? resetInMs(headers, now) : undefined);
}

/** Time until the service's quota resets, ms; undefined when no header says it believably. */
export function resetInMs(headers: ReplyHeaders, now: number): number | undefined {
  const given = one(headers, "x-ratelimit-reset");
  if (given === undefined || !/^\d+(\.\d+)?$/.test(given)) return undefined;
  const value = Number(given);
  return believable((value < MILLISECONDS_FROM ? value * 1000 : value) - serverTime(headers, now));
}

/** Requests that the service says are left in the current hour. */
export function remainingOf(headers: ReplyHeaders): number | undefined {
  const given = one(headers, "x-ratelimit-remaining");
  return given !== undefined && /^\d{1,9}$/.test(given) ? Number(given) : undefined;
}

/** Whether the body is not JSON. The service's bodies always are: a gateway before it has answered then. */
export const isForeign = (headers: ReplyHeaders): boolean =>
  !/^application\/json\b/i.test(one(headers, "content-type") ?? "application/json");

/** What Retry-After asks for, ms; undefined when it is absent or not usable. */
export function retryAfterMs(headers: ReplyHeaders, now: number): number | undefined {
  const given = one(headers, "retry-after");
  if (given === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(given)) return believable(Number(given) * 1000);
  // `Date.parse` accepts far more than HTTP dates ("-5", "1e3"); HTTP dates begin with a weekday.
  if (!/^(Mon|Tues?|Wed(nes)?|Thu(rs)?|Fri|Sat(ur)?|Sun)(day)?,? /.test(given)) return undefined;
  return believable(dateOf(given) - serverTime(headers, now));
}

/** HTTP dates are in GMT; asctime's form, the third of them, does not say so (RFC 9110, 5.6.7). */
const dateOf = (given: string): number =>
  Date.parse(/ \d{4}$/.test(given) ? `${given} GMT` : given);

function believable(ms: number): number | undefined {
  return ms > 0 && ms <= LONGEST_MS ? Math.ceil(ms) : undefined;
}

/** Times in headers are by the service's clock: its `Date` header. */
function serverTime(headers: ReplyHeaders, now: number): number {
  const date = dateOf(one(headers, "date") ?? "");
  return Number.isNaN(date) || Math.abs(date - now) < SKEW_MS ? now : date;
}

/**
 * By how much the sender's clock is ahead of ours, ms, by the header Date; negative: behind; 0: it may be the same time, since
 * `Date` has whole seconds; undefined: it says no time.
 */
export function clockSkewMs(
  headers: ReplyHeaders,
  sentAt: number,
  receivedAt: number,
): number | undefined {
  const ageS = Number(one(headers, "age") ?? 0);
  const date = dateOf(one(headers, "date") ?? "") + ageS * 1000;
  if (Number.isNaN(date)) return undefined;
  return date > receivedAt ? date - receivedAt : Math.min(0, date + 999 - sentAt);
}

function one(headers: ReplyHeaders, name: string): string | undefined {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value)?.trim();
}
