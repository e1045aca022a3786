/**
 * Verifies one proof: reads the relation once, and sends the state again when the service has
 * something else. An older request without an answer has then taken effect late.
 */
import { agrees, type FingerprintOf } from "./fingerprint.ts";
import type { ServiceReply } from "./service-reply.ts";
import type { DueProof, StateToStage } from "./staged-state.ts";

export interface VerifyPorts {
  /** Reads the relation. */
  get(): Promise<ServiceReply>;
  /** Makes the ledger's row uncertain. @returns false when the record has changed meanwhile. */
  withdraw(): Promise<boolean>;
  stage(state: StateToStage): Promise<unknown>;
  /** Forgets the proof. */
  finish(): Promise<void>;
  /** Whether a proof of this age is left unverified when no reply tells anything. */
  isTooOld(provenAt: number): boolean;
  readonly now: () => number;
  readonly fingerprintOf: FingerprintOf;
}

/** `unknown`: no reply told anything. The proof then waits for the next try, unless it is too old. */
export type Verified = "same" | "sent_again" | "unknown";

export async function verifyProof(due: DueProof, ports: VerifyPorts): Promise<Verified> {
  const said = compare(await ports.get(), due, ports.fingerprintOf);
  if (said === "unknown") {
    if (ports.isTooOld(due.at)) await ports.finish();
    return said;
  }
  const isSentAgain = said === "something_else" && (await ports.withdraw());
  // The state has the order of its own event: whatever is newer stays newer.
  if (isSentAgain) {
    await ports.stage({
      ...due.wanted,
      crmCode: due.crmCode,
      eventKey: "",
      fingerprint: undefined,
      // Who pauses or cancels the lane bulk means imports, not this state.
      lane: "live",
      time: ports.now(),
    });
  }
  await ports.finish();
  return isSentAgain ? "sent_again" : "same";
}

function compare(
  reply: ServiceReply,
  { proven }: DueProof,
  fingerprintOf: FingerprintOf,
): "same" | "something_else" | "unknown" {
  switch (reply.kind) {
    case "found":
      return proven.exists === true && agrees(proven.fingerprint, fingerprintOf(reply.body))
        ? "same"
        : "something_else";
    case "missing":
      return proven.exists === false ? "same" : "something_else";
    case "created":
    case "updated":
    case "accepted":
    case "exists":
    case "rejected":
    case "throttled":
    case "denied":
    case "unavailable":
      return "unknown";
  }
}
