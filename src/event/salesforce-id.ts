/** Ids of Salesforce: 15 characters, and three more that protect the case of their letters. */

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
