/**
 * THE PATH, second half: one record whose turn has come, with a permit for one request.
 *
 *   take the newest state ► decide from the ledger ► send at most one request ► settle
 *
 * What a surprising answer teaches (409: it exists; 404: it does not) is written to the ledger,
 * and the record comes again with a permit of its own; nothing waits for quota while it holds
 * a record.
 */
import { rowWithoutProof, type LedgerRow } from "./ledger-row.ts";
import type { Outcome } from "./outcomes.ts";
import type { ServiceReply } from "./service-reply.ts";
import type { SettleResult, Settlement, Take, TakenState } from "./staged-state.ts";
import { decide, type Decision } from "./decide.ts";
import type { DeadReason } from "./dead-letter.ts";
import { REJECTIONS } from "./rejections.ts";
import { retryDelay } from "./retry-delay.ts";
import { settleReply, type RetryPolicy } from "./settle-reply.ts";
import type { Problem } from "./problem.ts";

/** What the pointer job does next. */
export type Next =
  | { readonly kind: "complete" }
  /** Comes again at once, in front; no attempt is consumed. */
  | { readonly kind: "again" }
  | { readonly kind: "later"; readonly at: number };

export interface SyncEnd {
  readonly next: Next;
  /** Absent when nothing ended yet: the record was healed, held by another, or not there. */
  readonly outcome?: Outcome;
  /** Finer than the outcome, for counters and the log. */
  readonly reason?: string;
  readonly problems?: readonly Problem[];
}

export interface SyncPorts {
  take(crmCode: string): Promise<Take>;
  /** Spends the permit on the one request that the decision needs. */
  send(decision: Sendable, state: TakenState): Promise<ServiceReply>;
  settle(state: TakenState, how: Settlement): Promise<SettleResult>;
  storeDeadLetter(
    state: TakenState,
    reason: DeadReason,
    problems: readonly Problem[],
  ): Promise<void>;
  readonly now: () => number;
  readonly retry: RetryPolicy;
}

export type Sendable = Extract<Decision, { kind: "create" | "update" | "fetch" }>;

export async function syncRelation(
  crmCode: string,
  ports: SyncPorts,
): Promise<{ end: SyncEnd; state: TakenState | undefined }> {
  const taken = await ports.take(crmCode);
  if (taken.kind === "nothing") return { end: { next: { kind: "complete" } }, state: undefined };
  if (taken.kind === "busy") {
    return { end: { next: { kind: "later", at: taken.until } }, state: undefined };
  }
  const { state } = taken;
  const known = state.row ?? rowWithoutProof(state.warm);
  const payload =
    state.payload === undefined
      ? undefined
      : (JSON.parse(state.payload) as Readonly<Record<string, unknown>>);
  const decision = decide({ payload, status: state.status }, known);
  return { end: await carryOut(decision, state, known, ports), state };
}

async function carryOut(
  decision: Decision,
  state: TakenState,
  known: LedgerRow,
  ports: SyncPorts,
): Promise<SyncEnd> {
  const done = { next: { kind: "complete" } } as const;
  switch (decision.kind) {
    case "skip":
      await ports.settle(state, { row: { ...known, watermark: state.order }, finished: true });
      return { ...done, outcome: "skipped", reason: decision.why };
    case "reject": {
      const problems = REJECTIONS[decision.why];
      await ports.storeDeadLetter(state, decision.why, problems);
      await ports.settle(state, { row: "before", finished: true });
      return { ...done, outcome: "rejected", reason: decision.why, problems };
    }
    case "create":
    case "update":
    case "fetch": {
      const reply = await ports.send(decision, state);
      const settled = settleReply(reply, decision, state, known, ports.now(), ports.retry);
      const { dead } = settled;
      if (dead !== undefined) await ports.storeDeadLetter(state, dead.reason, dead.problems);
      const left = await ports.settle(state, settled.settlement);
      return left === "more" ? hastened(settled.end, settled.settlement, ports) : settled.end;
    }
  }
}

/** A newer state that came meanwhile does not wait out the failures of the older one. */
function hastened(
  end: SyncEnd,
  settlement: Settlement,
  { now, retry }: Pick<SyncPorts, "now" | "retry">,
): SyncEnd {
  if (end.next.kind !== "later") return end;
  const at = now() + Math.max(settlement.holdMs ?? 0, retryDelay(1, retry.baseMs, retry.random));
  return { ...end, next: { kind: "later", at: Math.min(at, end.next.at) } };
}
