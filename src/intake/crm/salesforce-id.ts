/** Ids of Salesforce: 15 characters that differ by case, and three more that tell the case of the others. */

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

/** The first characters of ids, for each standard object. Ids of custom objects begin with `a`. */
const BEGINS: ReadonlyMap<string, RegExp> = new Map([
  ["account", /^001/],
  ["contact", /^003/],
  ["lead", /^00Q/],
]);
const CUSTOM = /^a[\dA-Za-z]{2}/;

/** Whether a record of this object has an id of Salesforce, also if another program sends its event. @param object in lower case */
export function isOfSalesforce(object: string, id: string): boolean {
  const begins = BEGINS.get(object) ?? (object.endsWith("__c") ? CUSTOM : undefined);
  return begins?.test(id) === true && isRecordId(id) && /[A-Za-z]/.test(id);
}

/** A tool that ignores case has changed the letters: the id may be that of another record. */
export const hasWrongChecksum = (id: string): boolean =>
  wholeId(id.slice(0, 3 * CHUNK)) !== wholeId(id);
