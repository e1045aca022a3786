/**
 * Which ids records have: as the mapping says it (`id` in the mapping file), else ordinary ones. What a spreadsheet or a
 * program has made of an id is none: several records would share it.
 */
import { splitSubject, type RecordIds } from "../../core/event/crm-event.ts";
import { hasWrongChecksum, isOfSalesforce, wholeId } from "../crm/salesforce-id.ts";

/** By objects of the mapping: which ids it allows instead of the grammar's. */
export interface IdRule {
  /** In lower case. */
  readonly objects: readonly string[];
  /** Of a regular expression for the whole id. */
  readonly pattern: string;
}

/** Of a mapping, or of none. */
export const recordIds = ({ ids }: { readonly ids?: readonly IdRule[] } = {}): RecordIds => ({
  formOf,
  problemOf: (subject, record) => idProblem(subject, ids, record),
});

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

/** @param record whose id it is: a header row that stands twice has the names of its columns as values. */
function idProblem(
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
  if (isOfSalesforce(object.toLowerCase(), recordId) && hasWrongChecksum(recordId)) {
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

/** @param crm from which the record is to be read */
function formOf(subject: string, crm?: string): string {
  const { object, recordId: id } = splitSubject(subject);
  const guid = GUID.exec(id);
  if (guid !== null) return `${object}/${guid.slice(1).join("-").toLowerCase()}`;
  const isSalesforce = crm === "salesforce" || isOfSalesforce(object.toLowerCase(), id);
  return isSalesforce ? `${object}/${wholeId(id)}` : subject;
}
