/** Finds the relations that a name means: a crmCode, or a record of the CRM. */
import type { Stores } from "../status/stores.ts";
import { deadLetterId } from "../sync/dead-letter.ts";

export interface Names {
  /** Newest first; none when the name leads to no relation. */
  readonly crmCodes: readonly string[];
  /** The name, if it can be that of a record in the CRM. */
  readonly subject: string | undefined;
}

/** `<object>/<recordId>` */
const SUBJECT = /^[^/]+\/.+$/;

export async function findNames(stores: Stores, name: string): Promise<Names> {
  const isSubject = SUBJECT.test(name);
  const [isKnown, codes] = await Promise.all([
    isCode(stores, name),
    isSubject ? stores.history.codesOf(name) : [],
  ]);
  // A crmCode may look like the name of a record.
  const crmCodes = isKnown || !isSubject ? [name, ...codes.filter((code) => code !== name)] : codes;
  return { crmCodes, subject: isSubject ? name : undefined };
}

/** Whether anything is kept under this crmCode. */
async function isCode({ redis, keys }: Stores, name: string): Promise<boolean> {
  const found = await Promise.all([
    redis.hexists(keys.ledger, name),
    redis.exists(keys.staged(name)),
    redis.hexists(keys.deadLetters, deadLetterId(name)),
    redis.exists(keys.history("crmCode", name)),
  ]);
  return found.some((count) => count > 0);
}

/** The same crmCode in another case, if only that is known. */
export async function otherCase(stores: Stores, name: string): Promise<string | undefined> {
  for (const other of [name.toUpperCase(), name.toLowerCase()]) {
    if (other !== name && (await isCode(stores, other))) return other;
  }
  return undefined;
}
