/** Verifies signatures of Standard Webhooks (https://www.standardwebhooks.com). */
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";
import { isOneOf } from "../ops/secrets.ts";

/** A signature is valid this long before and after its time, s: the value of Standard Webhooks. */
const TOLERANCE_S = 300;

/** How long a signature can stay valid, with a margin, s: a request is remembered for that time. */
export const REMEMBER_FOR_S = 2 * TOLERANCE_S + 60;

/** The library reads "17e" as 17, which would give a copy of the request another key. */
const TIMESTAMP = /^[1-9]\d{0,11}$/;

/**
 * What can be told before the body is read: there is a signature, and its time is valid now.
 * @param now ms
 */
export function isSignedNow(headers: IncomingHttpHeaders, now: number): boolean {
  const timestamp = String(headers["webhook-timestamp"]);
  return (
    headers["webhook-id"] !== undefined &&
    String(headers["webhook-signature"]).includes("v1,") &&
    TIMESTAMP.test(timestamp) &&
    Math.abs(now / 1000 - Number(timestamp)) <= TOLERANCE_S
  );
}

/**
 * Its time is checked by `isSignedNow`: the library's own check goes by the clock of this machine.
 * @returns the request's key (id and time), undefined when the signature is not valid. Senders sign
 *   each retry with a new time, so the same key means a copy of the request.
 */
export function verifySignature(
  body: Buffer,
  headers: IncomingHttpHeaders,
  secrets: readonly string[],
): string | undefined {
  const id = String(headers["webhook-id"] ?? "");
  const timestamp = String(headers["webhook-timestamp"] ?? "");
  if (!TIMESTAMP.test(timestamp)) return undefined;
  const given = String(headers["webhook-signature"] ?? "").split(" ");
  for (const secret of secrets) {
    try {
      const signature = new Webhook(secret).sign(id, new Date(Number(timestamp) * 1000), body);
      if (given.some((one) => isOneOf(one, [signature]))) return `${id}.${timestamp}`;
    } catch {
      // Try the next secret. A secret that is not base64 ends here too.
    }
  }
  return undefined;
}
