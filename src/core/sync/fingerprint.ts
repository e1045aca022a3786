import { createSecretKey } from "node:crypto";
import { hashWith } from "../event/event-order.ts";
import { FIELDS_OF, variantOf, type Variant } from "../service-spec/business-relation.ts";
import { keepsWith, keptFieldsOf, NO_KEEPS, sorted, type Keeps } from "./keeps.ts";

/** The defaults of fields that a body omits (spec: both variants). */
const DEFAULTS = {
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
} as const;

/** The fields of each variant in the order of a fingerprint. */
export const SORTED_FIELDS: Readonly<Record<Variant, readonly string[]>> = {
  Person: [...FIELDS_OF.Person].sort(),
  Company: [...FIELDS_OF.Company].sort(),
};

/** Characters of base64url that are kept: 132 bits. */
const LENGTH = 22;

/** Separates the hash from what follows it; it occurs in no hash. */
const SEPARATOR = ".";

/**
 * Hash of what a body says: the specified fields of its variant, with defaults applied, in an order
 * of its own. Bodies with equal fingerprints mean the same relation, so a body that the service
 * lists can be compared with one that is about to be sent (`agrees`).
 * Kept fields are left out. Behind the hash stands a letter for each kept field that is sent only where the
 * service has none, if the body has a value in it. Fingerprints that leave out other fields are never equal.
 * Undefined for a body whose type the specification does not know.
 * @param notUnderstood fields that are left out of this one, too (keeps.ts)
 */
export interface FingerprintOf {
  (body: Body, notUnderstood?: readonly string[]): string | undefined;
  /** How the row of the body gets its marks; absent: it has none. */
  readonly marksOf?: MarksOf | undefined;
}

type Body = Readonly<Record<string, unknown>>;

/** Hashes of a body's fields, as one text (marks.ts); undefined as for a fingerprint. */
export type MarksOf = (body: Body) => string | undefined;

/**
 * @param key without it, a fingerprint can be guessed back: a person's fields are few. It never
 *   changes while a ledger is in use, or all of its fingerprints mean nothing.
 */
export function fingerprintWith(
  key: Buffer | undefined,
  keeps: Keeps = NO_KEEPS,
  marksOf?: MarksOf,
): FingerprintOf {
  const secret = key && createSecretKey(key);
  const fingerprintOf = (body: Body, notUnderstood: readonly string[] = []) => {
    const fields = meaningfulFields(body);
    const variant = variantOf(body["type"]);
    if (fields === undefined || variant === undefined) return undefined;
    const kept = keptFieldsOf(variant, keepsWith(keeps, variant, notUnderstood));
    if (kept === undefined) return hashWith(secret, JSON.stringify(fields), LENGTH);
    const owned = fields.filter(([field]) => kept[field] === undefined);
    const filled = fields.filter(([field]) => kept[field] === "ifPresent");
    const letters = filled.map(([field]) => SORTED_FIELDS[variant].indexOf(field).toString(36));
    const hash = hashWith(secret, JSON.stringify([sorted(kept), owned]), LENGTH);
    return letters.length === 0 ? hash : `${hash}${SEPARATOR}${letters.join("")}`;
  };
  return Object.assign(fingerprintOf, { marksOf });
}

/**
 * Whether the service has what is wanted, by the fingerprints of both: each field that is to be filled
 * has a value there.
 */
export function agrees(wanted: string | undefined, known: string | undefined): boolean {
  if (wanted === undefined || known === undefined) return false;
  const [hash, letters = ""] = wanted.split(SEPARATOR);
  const [knownHash, filled = ""] = known.split(SEPARATOR);
  return hash === knownHash && letters.split("").every((letter) => filled.includes(letter));
}

/** Whether the service has what is wanted, by the ledger's row: also where not all of it was understood. */
export const agreesWithRow = (
  wanted: string | undefined,
  { fingerprint, partial }: { readonly fingerprint: string | undefined; readonly partial?: string },
): boolean => agrees(wanted, fingerprint) || (fingerprint !== undefined && agrees(wanted, partial));

/** For bodies that are compared within one process and never stored. */
export const fingerprintOf: FingerprintOf = fingerprintWith(undefined);

/** What a body says, field by field: as its fingerprint is made from. */
export function meaningfulFields(body: Body): [field: string, value: unknown][] | undefined {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return undefined;
  const fields: [string, unknown][] = [];
  for (const field of SORTED_FIELDS[variant]) {
    const value = body[field] ?? DEFAULTS[field as keyof typeof DEFAULTS];
    if (value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) {
      continue;
    }
    fields.push([field, Array.isArray(value) ? value.map(String).sort() : value]);
  }
  return fields;
}
