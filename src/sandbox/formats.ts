import { COUNTRY_CODES, LANGUAGE_CODES } from "./iso-codes.ts";

/** A string format: its test, and the rule as the error text states it. */
interface Format {
  readonly holds: (text: string) => boolean;
  readonly rule: string;
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;

/** A day that exists: `2024-02-29` does, `2023-02-29` does not. */
function isDate(text: string): boolean {
  if (!DATE.test(text)) return false;
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/** RFC 5322 dot-atom before the `@`, RFC 1123 host name after it. */
const EMAIL =
  /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*@(?:[a-z\d](?:[a-z\d-]*[a-z\d])?\.)+[a-z\d](?:[a-z\d-]*[a-z\d])?$/i;

/** RFC 3986: a scheme, then only characters that a URI may contain. */
const URI = /^[a-z][a-z\d+.-]*:(?:[\w\-.~:/?#@!$&'()*+,;=]|%[\da-f]{2})+$/i;
/** Brackets stand nowhere else. */
const IPV6_HOST = /^([a-z][a-z\d+.-]*:\/\/(?:[^/?#[\]]*@)?)\[[\da-f:.]+\](?=[:/?#]|$)/i;
const HAS_AUTHORITY = /^(?:https?|ftps?|wss?):/i;

function isUri(text: string): boolean {
  if (!URI.test(text.replace(IPV6_HOST, "$1ipv6"))) return false;
  if (text.indexOf("#") !== text.lastIndexOf("#")) return false;
  if (!HAS_AUTHORITY.test(text)) return true;
  return /^[a-z]+:\/\/[^/?#]/i.test(text) && URL.canParse(text);
}

export const FORMATS = {
  date: { holds: isDate, rule: "must be a date that exists, written YYYY-MM-DD" },
  uuid: { holds: (text) => UUID.test(text), rule: "must be a UUID" },
  email: { holds: (text) => EMAIL.test(text), rule: "must be an email address" },
  uri: { holds: isUri, rule: "must be an absolute URI" },
  "iso-3166-1-alpha-2": {
    holds: (text) => COUNTRY_CODES.has(text),
    rule: "must be an ISO 3166-1 alpha-2 country code in upper case",
  },
  "iso-639-1": {
    holds: (text) => LANGUAGE_CODES.has(text),
    rule: "must be an ISO 639-1 language code in lower case",
  },
} as const satisfies Record<string, Format>;

export type FormatName = keyof typeof FORMATS;
