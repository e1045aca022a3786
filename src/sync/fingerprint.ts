import { createHash } from "node:crypto";
import { FIELDS_OF, variantOf } from "../service-spec/business-relation.ts";

/** What the service assumes for fields that a body omits (spec: both variants). */
const DEFAULTS = {
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
} as const;

/**
 * Hash of what a body says: the spec's fields of its variant with defaults applied, whatever the
 * order of keys and of list items. Two bodies with one fingerprint mean the same relation, so a
 * body as listed by the service compares with one that is about to be sent.
 * Undefined for a body whose type the spec does not know.
 */
export function fingerprintOf(body: Readonly<Record<string, unknown>>): string | undefined {
  const variant = variantOf(body["type"]);
  if (variant === undefined) return undefined;
  const said: [string, unknown][] = [];
  for (const field of [...FIELDS_OF[variant]].sort()) {
    const value = body[field] ?? DEFAULTS[field as keyof typeof DEFAULTS];
    if (value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) {
      continue;
    }
    said.push([field, Array.isArray(value) ? value.map(String).sort() : value]);
  }
  return createHash("sha256").update(JSON.stringify(said)).digest("base64url").slice(0, 22);
}
