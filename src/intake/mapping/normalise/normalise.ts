/** Converts one raw value to the form of its field. */
import { createRequire } from "node:module";
import type * as PhoneNumbers from "libphonenumber-js/max";
import { isChangedNumber } from "../record-ids.ts";
import { isEmail } from "../../../core/service-spec/business-relation.ts";
import { cleanText, hasDigit } from "../clean.ts";
import type { Form } from "../fields.ts";
import { lookUp, type Finder, foldCase } from "../compare-texts.ts";
import type { WarningReason } from "../mapping.ts";
import { countryOfNumber, toCountry, toNationality } from "./country.ts";
import { isZeroDate, needsZone, toDate } from "./date.ts";
import { toLanguage } from "./language.ts";

export type Scalar = string | number | boolean;

/** The CRM's value → the service's value; null: left out without a warning. */
export type Table = Finder<Scalar | null>;

export interface Wanted {
  readonly form: Form;
  /** The closed list to which the value must belong, if there is one. */
  readonly values?: readonly string[] | undefined;
  readonly table?: Table | undefined;
  readonly separator?: string | undefined;
  readonly format?: string | undefined;
  /** The time zone of moments, by its name. */
  readonly zone?: string | undefined;
  /** Of a date: the first year that is plausible. */
  readonly firstYear?: number | undefined;
  /** Words that mean nothing, in small letters, beside those of nothing.ts. */
  readonly nothing?: ReadonlySet<string> | undefined;
  /** Whether a number is a country, by ISO 3166. */
  readonly numeric?: boolean | undefined;
  /** What the CRM writes → the code of the language. */
  readonly languages?: Finder<string> | undefined;
  /** Country of telephone numbers without a prefix. */
  readonly country?: string | undefined;
}

/** Why a value (or an item of a list) was left out, or could not be checked. */
export interface ValueWarning {
  readonly reason: WarningReason;
  readonly value: unknown;
}

export interface Normalised {
  /** Undefined: there is no value, or none that can be used. */
  readonly value: Scalar | readonly string[] | undefined;
  /** Values of the record that `value` does not contain. */
  readonly warnings: readonly ValueWarning[];
}

const NOTHING: Normalised = { value: undefined, warnings: [] };

const NO_WORDS: ReadonlySet<string> = new Set();

const leaveOut = (reason: WarningReason, value: unknown): Normalised => ({
  value: undefined,
  warnings: [{ reason, value }],
});

export function normalise(raw: unknown, wanted: Wanted): Normalised {
  if (wanted.form === "list") return normaliseList(raw, wanted);
  // An expression over a list gives a list, even for a single item.
  const items: unknown[] = Array.isArray(raw)
    ? raw.flat(3).filter((item) => toScalar(item) !== "nothing")
    : [raw];
  if (items.length > 1) return leaveOut("not_understood", raw);
  const [one] = items;
  const scalar = toScalar(one);
  if (scalar === "nothing") return NOTHING;
  if (scalar === undefined) return leaveOut("not_understood", one);
  return normaliseScalar(scalar.value, wanted);
}

function normaliseList(raw: unknown, wanted: Wanted): Normalised {
  const items: unknown[] = Array.isArray(raw)
    ? raw.flat(3)
    : typeof raw === "string"
      ? raw.split(wanted.separator ?? ";")
      : [raw];
  const values = new Set<string>();
  const warnings: ValueWarning[] = [];
  for (const item of items) {
    const scalar = toScalar(item);
    if (scalar === "nothing") continue;
    const one =
      scalar === undefined
        ? leaveOut("not_understood", item)
        : normaliseScalar(scalar.value, { ...wanted, form: "text" });
    if (one.value !== undefined) values.add(String(one.value));
    warnings.push(...one.warnings);
  }
  return { value: values.size === 0 ? undefined : [...values], warnings };
}

function toScalar(raw: unknown): { value: Scalar } | "nothing" | undefined {
  if (raw === undefined || raw === null) return "nothing";
  if (typeof raw === "string") {
    const value = cleanText(raw);
    return value === "" ? "nothing" : { value };
  }
  if (typeof raw === "boolean") return { value: raw };
  if (typeof raw === "bigint") return { value: String(raw) };
  return typeof raw === "number" && Number.isFinite(raw) ? { value: raw } : undefined;
}

function normaliseScalar(value: Scalar, wanted: Wanted): Normalised {
  const { table, values } = wanted;
  if (table !== undefined) {
    const found = table(String(value));
    if (found === null) return NOTHING;
    if (found !== undefined) return { value: found, warnings: [] };
  }
  if (typeof value === "string" && isNothing(value, wanted.nothing ?? NO_WORDS)) return NOTHING;
  if (values !== undefined) {
    const found = lookUp(String(value), values);
    if (found !== undefined) return { value: found, warnings: [] };
    return leaveOut(table === undefined ? "not_in_list" : "not_in_table", value);
  }
  if (table !== undefined) return leaveOut("not_in_table", value);
  return toForm(value, wanted);
}

/** Digits with the signs between them, and an extension. */
const PHONE =
  /^(?:tel:)?[+(\p{Nd}][+\p{Nd} ()./–-]*(?:[ ,;#]{1,3}\p{L}{0,9}[. ]{0,2}\p{Nd}{1,6})?$/u;

const isPhone = (text: string): boolean => PHONE.test(text) && !isChangedNumber(text);

/** Postal codes and the numbers of authorities. */
const CODE = /^(?=.*\p{Nd})[\p{L}\p{M}\p{Nd} .,:;/()+_-]+$/u;

function toForm(value: Scalar, wanted: Wanted): Normalised {
  if (wanted.form === "date" && typeof value !== "boolean") return dateOf(value, wanted);
  const formed = formOf(value, wanted);
  if (formed !== undefined) {
    const isSuspicious = wanted.form === "text" && isOdd(String(formed));
    return { value: formed, warnings: isSuspicious ? [{ reason: "suspicious", value }] : [] };
  }
  if (wanted.form === "phone" && typeof value !== "boolean") {
    const text = String(value);
    if (!hasDigit(text)) return leaveOut("no_digits", value);
    // The spec has no rule for telephone numbers, so one that is not valid is sent, with a warning.
    if (isPhone(text)) {
      return { value: text, warnings: [{ reason: "kept_as_is", value }] };
    }
  }
  return leaveOut(wanted.form === "email" ? "not_accepted" : "not_understood", value);
}

/** Years before this one are mistakes in the date of a company. */
const FIRST_COMPANY = 1800;

function dateOf(value: string | number, wanted: Wanted): Normalised {
  if (isZeroDate(String(value))) return NOTHING;
  if (needsZone(value, wanted)) return leaveOut("time_of_day", value);
  const date = toDate(value, wanted);
  if (date === undefined) return leaveOut("not_understood", value);
  const { firstYear = FIRST_COMPANY } = wanted;
  // It is tomorrow somewhere.
  const latest = new Date(Date.now() + 14 * 3_600_000).toISOString().slice(0, 10);
  // SQL Server writes 1900-01-01 for no date.
  const isPlausible = date > `${firstYear}-01-01` && date <= latest;
  return isPlausible ? { value: date, warnings: [] } : leaveOut("implausible", value);
}

function formOf(value: Scalar, wanted: Wanted): Scalar | undefined {
  switch (wanted.form) {
    case "boolean":
      return toBoolean(value);
    case "number": {
      const number = typeof value === "boolean" ? undefined : toNumber(value);
      return number === undefined ? undefined : String(number);
    }
    case "country":
    case "nationality": {
      const text = String(value);
      const byNumber = wanted.numeric === true ? countryOfNumber(text) : undefined;
      return byNumber ?? (wanted.form === "country" ? toCountry(text) : toNationality(text));
    }
    case "language":
      return toLanguage(String(value), wanted.languages);
    case "phone":
      return isPhone(String(value)) ? toE164(String(value), wanted.country) : undefined;
    case "code":
      return CODE.test(String(value)) && !isChangedNumber(String(value))
        ? String(value)
        : undefined;
    case "email": {
      const address = String(value).replace(/^mailto:/i, "");
      return isEmail(address) ? address : undefined;
    }
    case "text":
      return typeof value === "boolean" ? undefined : String(value);
    case "date":
    case "list":
      return undefined;
  }
}

const wordsOf = (text: string): ReadonlySet<string> => new Set(text.split(" "));

/** Words for yes and no in the languages of Luxembourg, Switzerland and their neighbours. */
const YES = wordsOf("true yes y t 1 on ja j oui o si sim wahr vrai vero waar verdadero verdadeiro");
const NO = wordsOf("false no n f 0 off nein non nee nao falsch faux onwaar falso");

function toBoolean(value: string | number | boolean): boolean | undefined {
  if (typeof value === "boolean") return value;
  const word = foldCase(String(value));
  return YES.has(word) ? true : NO.has(word) ? false : undefined;
}

/** Whole numbers with at most 15 digits are exact as JSON numbers. */
const MAX_DIGITS = 15;

/** A plain decimal number; spaces, apostrophes or commas may separate thousands. */
function toNumber(value: string | number): number | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  const text = value.trim().replace(/(?<=\d)[\s'’,](?=\d{3}(?:\D|$))/g, "");
  if (!/^[+-]?\d+(?:\.\d+)?$/.test(text) || text.length > MAX_DIGITS) return undefined;
  return Number(text);
}

const load = createRequire(import.meta.url);

/** Loaded with the first number: it takes a quarter of the time that a mapping takes to load. */
const phoneNumbers = () => load("libphonenumber-js/max") as typeof PhoneNumbers;

/**
 * A telephone number as E.164.
 * @param country for numbers without a country prefix.
 * @returns undefined when the number is not valid, or has an extension (E.164 has none).
 */
function toE164(text: string, country: string | undefined): string | undefined {
  const { isSupportedCountry, parsePhoneNumberFromString } = phoneNumbers();
  const known = country !== undefined && isSupportedCountry(country) ? country : undefined;
  const parsed = parsePhoneNumberFromString(
    text.replace(/^00(?=\d)/, "+"),
    known === undefined ? {} : { defaultCountry: known },
  );
  if (parsed === undefined || !parsed.isValid() || parsed.ext !== undefined) return undefined;
  return parsed.number;
}

/** What people and programs write for "none". As they are: a person may be called Null. */
const WORDS_FOR_NONE: ReadonlySet<string> = new Set(
  `NULL; null; N/A; n/a; n.a.; NaN; nil; (null); <null>; \\N; -; --; ---; –; —; k.A.; k. A.; (leer);
  (blank); (vide); (none); (vuoto); (vacío); (en blanco); (vazio); (leeg); (No value); --None--; nan;
  NaT; <NA>; <NULL>; N.A.; n/d; N/D`.split(/;\s+/),
);

/** Without a letter or digit, a formula or an error of a spreadsheet, an object, a placeholder, a part of HTML, a wrong encoding. */
const ODD =
  /^[^\p{L}\p{N}]+$|^=|^#\p{Lu}|^(?:Array|None|Object|undefined)$|\[object |\{\{|\}\}|[${*]\{|\{!|\*\||&#?\w+;|<\/?\w+>|\ufffd|[ÃÂ][\u0080-\u00bf]/u;

/** @param more words of the mapping, in small letters */
export const isNothing = (text: string, more: ReadonlySet<string>): boolean =>
  WORDS_FOR_NONE.has(text) || (more.size > 0 && more.has(text.toLowerCase()));

/** Sent as it is, because a person may mean it; only named to people. */
const isOdd = (text: string): boolean => ODD.test(text) || isChangedNumber(text);
