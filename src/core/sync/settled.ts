/** What a reply leads to: how the taken state is given back, and how its run ends. */
import type { CrmEvent } from "../event/crm-event.ts";
import type { Problem } from "../event/problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { createDeadLetter, type DeadLetter, type DeadReason } from "./dead-letter.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { Keeps } from "./keeps.ts";
import { bringsFields } from "./known.ts";
import { rowOf, type LedgerRow } from "./ledger-row.ts";
import { changeBetween } from "./marks.ts";
import type { RunEnd } from "./outcomes.ts";
import type { ConfirmWhy } from "./record.ts";
import type { RetryPolicy } from "./retry.ts";
import type { Settlement, TakenState } from "./run.ts";
import { isKeptProblem } from "./validate.ts";

export type Body = Readonly<Record<string, unknown>>;

/** What settling needs beside the reply and the state. */
export interface SettleContext {
  /** ms */
  readonly now: number;
  readonly retry: RetryPolicy;
  /** How far apart the tries of a record that fails are, at least, ms. */
  readonly retryShareMs: number;
  readonly fingerprintOf: FingerprintOf;
  readonly keeps: Keeps;
  /** The tenant's; undefined while they are not known. */
  readonly lists?: TenantLists | undefined;
  /** The service rejects everything (breaker.ts): a rejection is not believed yet. */
  readonly isRejecting: boolean;
  /** As of `Answer`. */
  readonly stoppedUntil?: number | undefined;
}

export interface Settled {
  readonly settlement: Settlement;
  readonly end: RunEnd;
  readonly dead?: { readonly reason: DeadReason; readonly problems: readonly Problem[] };
}

/** The change is not finished, and runs again. */
export const again = (
  reason: string,
  how: Partial<Settlement> = {},
  outcome?: RunEnd["outcome"],
): Settled => ({
  settlement: { row: "before", finished: false, ...how },
  end: { finished: false, reason, ...(outcome && { outcome }) },
});

/** The next run reads first. */
export const reads = (why: ConfirmWhy, { now }: Pick<SettleContext, "now">, since = now) => ({
  confirm: { why, since },
});

/** The change ends as a dead letter. */
export function giveUp(
  reason: DeadReason,
  row: Settlement["row"],
  rule: string,
  kind: Problem["kind"],
  { field = "", openMs }: { readonly field?: string; readonly openMs?: number | undefined } = {},
): Settled {
  const problems = [{ field, rule, kind }];
  return {
    settlement: { row, finished: true, dead: true, openMs },
    end: { finished: true, outcome: "rejected", reason, problems },
    dead: { reason, problems },
  };
}

/** The service has the wanted body, by the answer to a write of ours, or by a read that has shown this write. */
export function done(
  outcome: "created" | "updated",
  body: Body,
  { notUnderstood, orders, row: known }: TakenState,
  { fingerprintOf, now }: SettleContext,
): Settled {
  const row = {
    ...rowOf(body, now, fingerprintOf),
    ...partialOf(body, notUnderstood, fingerprintOf),
    orders,
    written: true,
  };
  const change = outcome === "updated" ? changeBetween(known, row) : undefined;
  return {
    settlement: { row, finished: true },
    end: { finished: true, outcome, ...(change && { change }) },
  };
}

/** What was settled, where not all of it was understood. */
export function partialOf(
  body: Body,
  notUnderstood: readonly string[],
  fingerprintOf: FingerprintOf,
): Pick<LedgerRow, "partial"> {
  const partial = notUnderstood.length > 0 ? fingerprintOf(body, notUnderstood) : undefined;
  return partial === undefined ? {} : { partial };
}

/** The dead letter of a state that sync cannot bring to the service. */
export function deadLetterOf(
  state: TakenState,
  why: Pick<DeadLetter, "reason" | "problems" | "at">,
): DeadLetter {
  const { crmCode, event, eventOrder, orders, owner, status } = state;
  const { data, source, type } = JSON.parse(event) as Partial<CrmEvent>;
  // The record of a merge is not that of a record which was merged away.
  const hasUnusedRecord = data?.record !== undefined && type !== "crm.record.merged";
  return createDeadLetter(
    { crmCode },
    {
      ...why,
      event,
      source,
      owner,
      order: eventOrder,
      hasFields: bringsFields(state) || hasUnusedRecord,
      newest: { order: orders.status, status },
    },
  );
}

/**
 * What follows once the letter is stored: changed lists may redrive it. `redrive`: the lists have changed since the
 * record was mapped, and it is mapped by those of now; what the service itself has stays.
 */
export function afterLetter(
  state: Pick<TakenState, "eventOrder" | "orders">,
  { problems, reason }: Pick<DeadLetter, "problems" | "reason">,
): "redrive" | "doubt_lists" | undefined {
  if (reason === "service_rejected") return "doubt_lists";
  const isOurs = reason === "invalid" && bringsFields(state) && !problems.some(isKeptProblem);
  return isOurs ? "redrive" : undefined;
}
