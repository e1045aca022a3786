/**
 * THE PATH, second half: one record whose turn has come, with a permit for one request.
 *
 *   take the newest state ► decide from the ledger ► send at most one request ► settle
 *
 * What a surprising answer teaches (409: it exists; 404: it does not) is written to the ledger,
 * and the record comes again with a permit of its own; nothing waits for quota while it holds
 * a record.
 */
import type { LedgerView } from "./ledger-view.ts";
import { decide, type Decision } from "./decide.ts";
import type { DeadReason } from "./dead-letter.ts";
import { REJECTIONS } from "./rejections.ts";
import { retryDelay } from "./retry-delay.ts";
import { settleReply, type RetryPolicy, type ServiceReply } from "./settle-reply.ts";
import type { Problem } from "../spec/problem.ts";
import type { Lane } from "../spec/lane.ts";

/** A record taken for one run. Its `firstTime` is that of the first event not yet proven, ms. */
export interface TakenState {
  readonly crmCode: string;
  readonly order: string;
  readonly payload: string | undefined;
  readonly status: "mapped" | "terminated" | "active";
  readonly lane: Lane;
  readonly firstTime: number;
  readonly event: string;
  readonly tries: number;
  readonly firstTryAt: number | undefined;
  readonly heals: number;
  readonly row: LedgerView | undefined;
  readonly warm: boolean;
}

export type Take<T extends TakenState> =
  | { readonly kind: "taken"; readonly state: T }
  | { readonly kind: "nothing" }
  | { readonly kind: "busy"; readonly until: number };

/** How a taken state is given back to the store. */
export interface Settlement {
  /** The row that the ledger gets; `before` as it was; `uncertain` until the next answer. */
  readonly row: LedgerView | "before" | "uncertain";
  /** Whether this state is done with, sent or given up. */
  readonly finished: boolean;
  /** How long nobody may take the record, for a request that may still arrive, ms. */
  readonly holdMs?: number;
  /** Payload that was fetched for a state that had none. */
  readonly payload?: string;
  readonly failed?: boolean;
  readonly healed?: boolean;
}

/** Closed set of outcomes (DESIGN §3). */
export type Outcome =
  | "created"
  | "updated"
  | "skipped"
  | "rejected"
  | "throttled"
  | "unavailable"
  | "denied";

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

export interface SyncPorts<T extends TakenState> {
  take(crmCode: string): Promise<Take<T>>;
  /** Spends the permit on the one request that the decision needs. */
  send(decision: Sendable, state: T): Promise<ServiceReply>;
  settle(state: T, how: Settlement): Promise<"settled" | "more" | "lost">;
  bury(state: T, reason: DeadReason, problems: readonly Problem[]): Promise<void>;
  readonly now: () => number;
  readonly retry: RetryPolicy;
}

export type Sendable = Extract<Decision, { kind: "create" | "update" | "fetch" }>;

const UNKNOWN: LedgerView = {
  exists: undefined,
  uncertain: false,
  fingerprint: undefined,
  terminated: false,
  variant: undefined,
  watermark: "",
  provedAt: 0,
};

export async function syncRelation<T extends TakenState>(
  crmCode: string,
  ports: SyncPorts<T>,
): Promise<{ end: SyncEnd; state: T | undefined }> {
  const taken = await ports.take(crmCode);
  if (taken.kind === "nothing") return { end: { next: { kind: "complete" } }, state: undefined };
  if (taken.kind === "busy") {
    return { end: { next: { kind: "later", at: taken.until } }, state: undefined };
  }
  const { state } = taken;
  const known = state.row ?? { ...UNKNOWN, exists: state.warm ? false : undefined };
  const payload =
    state.payload === undefined
      ? undefined
      : (JSON.parse(state.payload) as Readonly<Record<string, unknown>>);
  const decision = decide({ payload, status: state.status }, known);
  return { end: await carryOut(decision, state, known, ports), state };
}

async function carryOut<T extends TakenState>(
  decision: Decision,
  state: T,
  known: LedgerView,
  ports: SyncPorts<T>,
): Promise<SyncEnd> {
  const done = { next: { kind: "complete" } } as const;
  switch (decision.kind) {
    case "skip":
      await ports.settle(state, { row: { ...known, watermark: state.order }, finished: true });
      return { ...done, outcome: "skipped", reason: decision.why };
    case "reject": {
      const problems = REJECTIONS[decision.why];
      await ports.bury(state, decision.why, problems);
      await ports.settle(state, { row: "before", finished: true });
      return { ...done, outcome: "rejected", reason: decision.why, problems };
    }
    case "create":
    case "update":
    case "fetch": {
      const reply = await ports.send(decision, state);
      const settled = settleReply(reply, decision, state, known, ports.now(), ports.retry);
      const { dead } = settled;
      if (dead !== undefined) await ports.bury(state, dead.reason, dead.problems);
      const left = await ports.settle(state, settled.settlement);
      return left === "more" ? hastened(settled.end, settled.settlement, ports) : settled.end;
    }
  }
}

/** A newer state that came meanwhile does not wait out the failures of the older one. */
function hastened<T extends TakenState>(
  end: SyncEnd,
  settlement: Settlement,
  { now, retry }: Pick<SyncPorts<T>, "now" | "retry">,
): SyncEnd {
  if (end.next.kind !== "later") return end;
  const at = now() + Math.max(settlement.holdMs ?? 0, retryDelay(1, retry.baseMs, retry.random));
  return { ...end, next: { kind: "later", at: Math.min(at, end.next.at) } };
}
