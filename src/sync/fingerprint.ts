import { createHash } from "node:crypto";
import { FIELDS_OF, variantOf } from "../service-spec/business-relation.ts";

/** The defaults of fields that a body omits (spec: both variants). */
const DEFAULTS = {
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
} as const;

/**
 * Hash of what a body says: the specified fields of its variant, with defaults applied, in an order
 * of its own. Bodies with equal fingerprints mean the same relation, so a body that the service
 * lists can be compared with one that is about to be sent.
 * Undefined for a body whose type the specification does not know.
 */
export function fingerprintOf(body: Readonly<Record<string, unknown>>): string | undefined {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return undefined;
  const fields: [string, unknown][] = [];
  for (const field of [...FIELDS_OF[variant]].sort()) {
    const value = body[field] ?? DEFAULTS[field as keyof typeof DEFAULTS];
    if (value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) {
      continue;
    }
    fields.push([field, Array.isArray(value) ? value.map(String).sort() : value]);
  }
  return createHash("sha256").update(JSON.stringify(fields)).digest("base64url").slice(0, 22);
}
