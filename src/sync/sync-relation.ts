/**
 * THE PATH, second half: one record, with a permit for one request.
 *
 *   take the newest state ► decide from the ledger ► send at most one request ► audit ► settle
 *
 * Before a request that terminates a relation (decide.ts), or an update that empties fields (emptied.ts), a guard
 * is asked. Before any write, the payload is
 * checked against the tenant's lists of now: they may have changed while it waited.
 *
 * An unexpected reply (409: it exists; 404: it does not) is written to the ledger, and the record
 * runs again with a permit of its own: no record is held while it waits for quota. So does a record
 * whose reply must be confirmed before it is believed, and one whose kept fields were read (keeps.ts).
 */
import { auditedChange, type AuditedChange } from "./audited-change.ts";
import { variantOf } from "../service-spec/business-relation.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import type { DeadReason } from "./dead-letter.ts";
import { fieldUpdate, type FieldUpdate } from "./emptied.ts";
import {
  checkFirst,
  decide,
  type Check,
  type Decision,
  type Sendable,
  REJECTIONS,
  terminationIn,
} from "./decide.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import { keepsWith, type Keeps } from "./keeps.ts";
import type { LedgerRow } from "./ledger-row.ts";
import type { Problem } from "../event/problem.ts";
import type { RunEnd } from "./outcomes.ts";
import type { ServiceReply } from "./service-reply.ts";
import { settleReply } from "./settle-reply.ts";
import { stillOpen, type RetryPolicy } from "./settled.ts";
import {
  bringsFields,
  type HeldWhy,
  type SettleResult,
  type Settlement,
  type Take,
  type TakenState,
} from "./record.ts";
import { ofKept, tenantProblems } from "./validate.ts";

export interface SyncPorts {
  take(crmCode: string): Promise<Take>;
  /**
   * Whether the guard admits one more termination.
   * @param when `now`: it is sent now; `next`: the relation is only read now.
   */
  admitTermination(state: TakenState, when: "now" | "next"): Promise<boolean>;
  /** @returns fields that this update empties, as too many others do; none: it may be sent; or it must be read first. */
  admitUpdate(state: TakenState, update: FieldUpdate): Promise<readonly string[] | "read">;
  /** Spends the permit on the one request that the decision needs. */
  send(decision: Sendable, state: TakenState): Promise<ServiceReply>;
  /** @param end how the run ends, for the history of the record. */
  settle(state: TakenState, how: Settlement, end: Omit<RunEnd, "finished">): Promise<SettleResult>;
  /** Whether this write, which was answered, is read once more as a spot check. */
  isToBeChecked(state: TakenState): Promise<boolean>;
  /** Writes the change's line of the audit trail. */
  audit(state: TakenState, change: AuditedChange): Promise<void>;
  storeDeadLetter(
    state: TakenState,
    reason: DeadReason,
    problems: readonly Problem[],
  ): Promise<void>;
  readonly now: () => number;
  /** The tenant's; undefined while they are not known. */
  readonly lists: () => TenantLists | undefined;
  /** How fingerprints are made that leave these fields out. */
  fingerprintsWithout(keeps: Keeps): FingerprintOf;
  readonly retry: RetryPolicy;
  /** How far apart the tries of one record must be now, ms. */
  retryShareMs(): Promise<number>;
}

/**
 * @returns how the run ended; `state` is undefined when nothing was taken. What the ports throw is thrown: the
 *   record is then held until its hold expires.
 */
export async function syncRelation(
  crmCode: string,
  ports: SyncPorts,
): Promise<{ end: RunEnd; state: TakenState | undefined }> {
  const taken = await ports.take(crmCode);
  if (taken.kind !== "taken") return { end: { finished: false }, state: undefined };
  const { state } = taken;
  const known = state.row;
  const fingerprintOf = ports.fingerprintsWithout(state.keeps);
  const wanted = {
    payload: parsed(state.payload),
    status: state.status,
    notUnderstood: state.notUnderstood,
    doubt: state.doubt,
    kept: parsed(state.kept),
  };
  const decision = decide(wanted, known, fingerprintOf, state.keeps);
  const first = checkFirst(decision, state.doubt);
  return { end: await carryOut(first, state, known, fingerprintOf, ports), state };
}

const parsed = (text: string | undefined): Readonly<Record<string, unknown>> | undefined =>
  text === undefined ? undefined : (JSON.parse(text) as Readonly<Record<string, unknown>>);

async function carryOut(
  decision: Decision | Check,
  state: TakenState,
  known: LedgerRow,
  fingerprintOf: FingerprintOf,
  ports: SyncPorts,
): Promise<RunEnd> {
  switch (decision.kind) {
    case "skip": {
      const end = { finished: true, outcome: "skipped", reason: decision.why } as const;
      // Old rows of absent relations are deleted. A new time keeps this one, for its watermark.
      const provedAt = known.exists === false ? ports.now() : known.provedAt;
      const row = { ...known, orders: state.orders, provedAt };
      await ports.settle(state, { row, finished: true }, end);
      return end;
    }
    case "reject":
      return reject(state, decision.why, REJECTIONS[decision.why], ports);
    case "create":
    case "update":
    case "check":
    case "fetch": {
      const termination = terminationIn(decision, state.status, known);
      const unlisted = unlistedIn(decision, state, ports.lists());
      if (unlisted.length > 0) return reject(state, "invalid", unlisted, ports);
      if (termination !== undefined && !(await ports.admitTermination(state, termination))) {
        return hold(state, "limit", [], ports);
      }
      const update = decision.kind === "update" ? fieldUpdate(decision.body, known) : undefined;
      const emptied = update === undefined ? [] : await ports.admitUpdate(state, update);
      if (emptied === "read" && decision.kind === "update")
        return carryOut({ kind: "fetch", into: decision.body }, state, known, fingerprintOf, ports);
      if (emptied !== "read" && emptied.length > 0) return hold(state, "emptied", emptied, ports);
      const reply = await ports.send(decision, state);
      const { retry } = ports;
      const context = {
        now: ports.now(),
        retry,
        retryShareMs: reply.kind === "unavailable" ? await ports.retryShareMs() : 0,
        fingerprintOf,
        keeps: keepsWith(state.keeps, state.variant, state.notUnderstood),
        lists: ports.lists(),
      };
      const settled = settleReply(reply, decision, state, known, context);
      const { dead, end, settlement } = settled;
      if (dead !== undefined) await ports.storeDeadLetter(state, dead.reason, dead.problems);
      const isWritten = reply.kind === "created" || reply.kind === "updated";
      const spotCheck = isWritten && settlement.finished && (await ports.isToBeChecked(state));
      // Before the ledger knows it: after a crash in between the change runs again, and has two lines.
      const change = auditedChange(decision, settled, state);
      if (change !== undefined) await ports.audit(state, change);
      await ports.settle(state, spotCheck ? { ...settlement, spotCheck } : settlement, end);
      return end;
    }
  }
}

/** What the tenant's lists of now refuse of a write. A termination sends what the service has, so it may pass. */
function unlistedIn(
  decision: Sendable,
  state: TakenState,
  lists: TenantLists | undefined,
): readonly Problem[] {
  if (decision.kind === "check" || state.status === "terminated" || lists === undefined) return [];
  const body = (decision.kind === "fetch" ? decision.into : decision.body) ?? {};
  // Without fields of an event, all that an update sends is the service's own.
  const kept = bringsFields(state) ? (parsed(state.kept) ?? {}) : body;
  const isKept = ({ field }: Problem) => kept[field.replace(/\[\d+\]$/, "")] !== undefined;
  return problemsWith(body, lists).map((one) => (isKept(one) ? ofKept(one) : one));
}

function problemsWith(body: Readonly<Record<string, unknown>>, lists: TenantLists): Problem[] {
  const variant = variantOf(body["type"]);
  return variant === undefined ? [] : tenantProblems(body, variant, lists);
}

/** No request can bring this state to the service. */
async function reject(
  state: TakenState,
  reason: DeadReason,
  problems: readonly Problem[],
  ports: SyncPorts,
): Promise<RunEnd> {
  const end = { finished: true, outcome: "rejected", reason, problems } as const;
  await ports.storeDeadLetter(state, reason, problems);
  await ports.settle(state, { row: "before", finished: true, dead: true }, end);
  return end;
}

/** Too many relations were terminated lately, or have lost these fields: a person decides about this one. */
async function hold(
  state: TakenState,
  held: HeldWhy,
  heldFields: readonly string[],
  ports: SyncPorts,
): Promise<RunEnd> {
  const settlement = {
    row: "before",
    finished: false,
    held,
    ...(heldFields.length > 0 && { heldFields }),
    ...stillOpen(state),
  } as const;
  const end = { finished: false, outcome: "held", reason: held } as const;
  const result = await ports.settle(state, settlement, end);
  return result === "settled" ? end : { finished: false, reason: "held" };
}
