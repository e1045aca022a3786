/** Verifies signatures of Standard Webhooks (https://www.standardwebhooks.com). */
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";

/** A signature is valid this long before and after its time, s; the library's own value. */
const TOLERANCE_S = 300;

/** How long a signature can stay valid, with a margin, s: a request is remembered for that time. */
export const REMEMBER_FOR_S = 2 * TOLERANCE_S + 60;

/** The library reads "17e" as 17, which would give a copy of the request another key. */
const TIMESTAMP = /^[1-9]\d{0,11}$/;

/** What can be told before the body is read: there is a signature, and its time is valid now. */
export function isSignedNow(headers: IncomingHttpHeaders): boolean {
  const timestamp = String(headers["webhook-timestamp"]);
  return (
    headers["webhook-id"] !== undefined &&
    String(headers["webhook-signature"]).includes("v1,") &&
    TIMESTAMP.test(timestamp) &&
    Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_S
  );
}

/**
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
  const signed = {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": String(headers["webhook-signature"] ?? ""),
  };
  for (const secret of secrets) {
    try {
      new Webhook(secret).verify(body, signed, { jsonParse: false });
      return `${id}.${timestamp}`;
    } catch {
      // Try the next secret. A secret that is not base64 ends here too.
    }
  }
  return undefined;
}
