import { createHash } from "node:crypto";

/** The identity of an event as one short text, in which nobody can read what it was. */
export function eventKey(event: { readonly source: string; readonly id: string }): string {
  const hash = createHash("sha256").update(`${event.source}\u0000${event.id}`);
  return hash.digest("base64url").slice(0, 22);
}
