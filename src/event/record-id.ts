/** Ids of records: those that are none, and the one form of an id that a CRM writes in several. */
import { isRecordId, wholeId } from "./salesforce-id.ts";

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
