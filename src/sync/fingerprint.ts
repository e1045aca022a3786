import { createHmac, createHash } from "node:crypto";
import { FIELDS_OF, variantOf, type Variant } from "../service-spec/business-relation.ts";

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

/**
 * Hash of what a body says: the specified fields of its variant, with defaults applied, in an order
 * of its own. Bodies with equal fingerprints mean the same relation, so a body that the service
 * lists can be compared with one that is about to be sent.
 * Undefined for a body whose type the specification does not know.
 */
export type FingerprintOf = (body: Readonly<Record<string, unknown>>) => string | undefined;

/**
 * @param key without it, a fingerprint can be guessed back: a person's fields are few. It never
 *   changes while a ledger is in use, or all of its fingerprints mean nothing.
 */
export function fingerprintWith(key: Buffer | undefined): FingerprintOf {
  return (body) => {
    const text = meaningOf(body);
    if (text === undefined) return undefined;
    const hash = key === undefined ? createHash("sha256") : createHmac("sha256", key);
    return hash.update(text).digest("base64url").slice(0, LENGTH);
  };
}

/** For bodies that are compared within one process and never stored. */
export const fingerprintOf: FingerprintOf = fingerprintWith(undefined);

function meaningOf(body: Readonly<Record<string, unknown>>): string | undefined {
  const fields = meaningfulFields(body);
  return fields && JSON.stringify(fields);
}

/** What a body says, field by field: as its fingerprint is made from. */
export function meaningfulFields(
  body: Readonly<Record<string, unknown>>,
): [field: string, value: unknown][] | undefined {
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
