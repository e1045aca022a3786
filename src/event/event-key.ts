import { createHash } from "node:crypto";

/** An event's identity as a hash of 22 characters, from which `source` and `id` cannot be read. */
export function eventKey(event: { readonly source: string; readonly id: string }): string {
  const hash = createHash("sha256").update(`${event.source}\u0000${event.id}`);
  return hash.digest("base64url").slice(0, 22);
}
