/** What reading a relation tells of what was proven about it: an older request may have taken effect late. Pure. */
import { agrees, type FingerprintOf } from "./fingerprint.ts";
import type { ServiceReply } from "./service-reply.ts";
import type { Staged } from "./record.ts";

/** `unknown`: the reply tells nothing; the relation is read again later. */
export type Verified = "same" | "something_else" | "unknown";

export function verifyProof(
  reply: ServiceReply,
  proof: NonNullable<Staged["proof"]>,
  fingerprintOf: FingerprintOf,
): Verified {
  switch (reply.kind) {
    case "found":
      return proof.exists === true && agrees(proof.fingerprint, fingerprintOf(reply.body))
        ? "same"
        : "something_else";
    case "missing":
      return proof.exists === false ? "same" : "something_else";
    case "created":
    case "updated":
    case "accepted":
    case "renamed":
    case "exists":
    case "rejected":
    case "throttled":
    case "denied":
    case "unavailable":
      return "unknown";
  }
}
