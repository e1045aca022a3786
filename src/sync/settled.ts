/** What a reply leads to: how the taken state is given back, and how its run ends. */
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { DeadReason } from "./dead-letter.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { Keeps } from "./keeps.ts";
import type { Problem } from "../event/problem.ts";
import type { RunEnd } from "./run-end.ts";
import type { Settlement, TakenState } from "./staged-state.ts";

export interface RetryPolicy {
  readonly baseMs: number;
  /** A change that has been `unavailable` for this long becomes a dead letter, ms. */
  readonly giveUpMs: number;
  /** For how long an ambiguous request may still arrive, ms. */
  readonly holdMs: number;
  readonly random: () => number;
}

/** What settling needs beside the reply and the state. */
export interface SettleContext {
  /** ms */
  readonly now: number;
  readonly retry: RetryPolicy;
  /** How far apart the tries of a record that fails are, at least, ms (retry-delay.ts). */
  readonly retryShareMs: number;
  readonly fingerprintOf: FingerprintOf;
  readonly keeps: Keeps;
  /** The tenant's; undefined while they are not known. */
  readonly lists?: TenantLists | undefined;
}

export interface Settled {
  readonly settlement: Settlement;
  readonly end: RunEnd;
  readonly dead?: { readonly reason: DeadReason; readonly problems: readonly Problem[] };
}

/** A reply that tells nothing leaves open what was open. */
export const stillOpen = ({ doubt }: TakenState): Pick<Settlement, "doubt"> =>
  doubt === undefined ? {} : { doubt };

/** The change ends as a dead letter. */
export function giveUp(
  reason: DeadReason,
  settlement: Settlement,
  rule: string,
  kind: Problem["kind"],
  field = "",
): Settled {
  const problems = [{ field, rule, kind }];
  return {
    settlement: { ...settlement, dead: true },
    end: { finished: true, outcome: "rejected", reason, problems },
    dead: { reason, problems },
  };
}
