import { createHmac, hash } from "node:crypto";

/** An event's identity as a hash of 22 characters, from which `source` and `id` cannot be read. */
export function eventKey(event: { readonly source: string; readonly id: string }): string {
  return hash("sha256", `${event.source}\u0000${event.id}`, "base64url").slice(0, 22);
}

/** What an event says, as a hash: a second delivery says the same, another change with the same id does not. */
export type ContentHash = (event: object) => string;

/** Characters of base64url that are kept: 72 bits. */
const CONTENT_LENGTH = 12;

/** @param key without it, values could be guessed back from the hash. */
export function contentHashWith(key: Buffer | undefined): ContentHash {
  return (event) => {
    const { data, id, sequence, source, subject, time, type } = event as Record<string, unknown>;
    // A sender may write what it does not set as null.
    const said = [source, id, type, subject, time, sequence, data].map((part) => part ?? null);
    const text = JSON.stringify(said, (_name, value: unknown) => inOrder(value));
    const whole =
      key === undefined
        ? hash("sha256", text, "base64url")
        : createHmac("sha256", key).update(text).digest("base64url");
    return whole.slice(0, CONTENT_LENGTH);
  };
}

const inOrder = (value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;
