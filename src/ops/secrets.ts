/** Comparing what a caller shows with what is kept, in constant time. */
import { createHash, createHmac, timingSafeEqual } from "node:crypto";

/** Where a secret comes from; read anew for each request, so that a changed file counts at once. */
export type SecretText = () => string;

/** A secret's value may be several ones with blanks between: old and new while they are rotated. */
export const secretsOf = (secret: SecretText | undefined): string[] =>
  (secret?.() ?? "").split(/\s+/).filter((text) => text !== "");

const digest = (text: string | Buffer): Buffer => createHash("sha256").update(text).digest();

/** Whether two texts are equal; takes as long whatever they are. */
const isSame = (given: string, wanted: string): boolean =>
  timingSafeEqual(digest(given), digest(wanted));

/** Whether the text is one of the secrets; looks at all of them in any case. */
export const isOneOf = (given: string | undefined, secrets: readonly string[]): boolean =>
  given !== undefined && secrets.map((secret) => isSame(given, secret)).includes(true);

/** Whether one of the secrets makes this signature of the parts. */
export function isSignedBy(
  secrets: readonly string[],
  parts: readonly (string | Buffer)[],
  encoding: "hex" | "base64",
  signature: string | undefined,
): boolean {
  const made = secrets.map((secret) => {
    const hmac = createHmac("sha256", secret);
    for (const part of parts) hmac.update(part);
    return hmac.digest(encoding);
  });
  return isOneOf(signature, made);
}
