import { randomBytes } from "node:crypto";

/** A new key prefix; the braces keep its keys on one node of a Redis Cluster. */
export function uniquePrefix(): string {
  return `{t-${randomBytes(6).toString("hex")}}`;
}
