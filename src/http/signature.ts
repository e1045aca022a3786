/** Standard Webhooks: who signed a request, and when (https://www.standardwebhooks.com). */
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";

/** A signature holds this long before and after its time, s; set by the library. */
const TOLERANCE_S = 300;

/** For how long a taken request is remembered, s: past it, its signature holds no more. */
export const REPLAY_MEMORY_S = 2 * TOLERANCE_S + 60;

export const isSigned = (headers: IncomingHttpHeaders): boolean =>
  headers["webhook-signature"] !== undefined;

/**
 * What names this very request, undefined when no secret has signed it within the tolerance.
 * A sender that tries again signs anew; the same id with the same time is a copy.
 */
export function verifySignature(
  body: Buffer,
  headers: IncomingHttpHeaders,
  secrets: readonly string[],
): string | undefined {
  const id = String(headers["webhook-id"] ?? "");
  const timestamp = String(headers["webhook-timestamp"] ?? "");
  // The library reads "17e" as 17: a copy could then pass under another name.
  if (!/^[1-9]\d{0,11}$/.test(timestamp)) return undefined;
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
      // Not this one; a secret that is no base64 signs nothing either.
    }
  }
  return undefined;
}
