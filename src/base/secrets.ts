/** Compares secrets and signatures in constant time. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** Reads a secret; called for each request, so that a changed file takes effect at once. */
export type SecretText = () => string;

/** Splits a value at blanks: it may hold the old and the new secret during a rotation. */
export const secretsOf = (secret: SecretText | undefined): string[] =>
  (secret?.() ?? "").split(/\s+/).filter((text) => text !== "");

const digest = (text: string | Buffer): Buffer => createHash("sha256").update(text).digest();

/** Whether two texts are equal; takes the same time for every pair. */
const isSame = (given: string, wanted: string): boolean =>
  timingSafeEqual(digest(given), digest(wanted));

/** Whether the text is one of the secrets; always compares with all of them. */
export const isOneOf = (given: string | undefined, secrets: readonly string[]): boolean =>
  given !== undefined && secrets.map((secret) => isSame(given, secret)).includes(true);

/** Whether the signature is the HMAC of the parts with one of the secrets. */
export function isSignedBy(
  secrets: readonly (string | Buffer)[],
  parts: readonly (string | Buffer)[],
  encoding: "hex" | "base64",
  signature: string | undefined,
  algorithm = "sha256",
): boolean {
  const expected = secrets.map((secret) => {
    const hmac = createHmac(algorithm, secret);
    for (const part of parts) hmac.update(part);
    return hmac.digest(encoding);
  });
  return isOneOf(signature, expected);
}
