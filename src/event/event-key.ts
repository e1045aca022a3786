import { hash } from "node:crypto";

/** An event's identity as a hash of 22 characters, from which `source` and `id` cannot be read. */
export function eventKey(event: { readonly source: string; readonly id: string }): string {
  return hash("sha256", `${event.source}\u0000${event.id}`, "base64url").slice(0, 22);
}
