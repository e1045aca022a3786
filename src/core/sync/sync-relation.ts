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
import { decide, type Decision, type Sendable, REJECTIONS, terminationIn } from "./decide.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import { keepsWith, type Keeps } from "./keeps.ts";
import type { Problem } from "../event/problem.ts";
import type { RunEnd } from "./outcomes.ts";
import type { ServiceReply } from "./service-reply.ts";
import { bringsFields } from "./known.ts";
import { NOTHING } from "./marks.ts";
import type { Confirm, HeldWhy } from "./record.ts";
import type { RetryPolicy } from "./retry.ts";
import type { SettleResult, Settlement, Take, TakenState } from "./run.ts";
import { settleReply } from "./settle-reply.ts";
import { ofKept, tenantProblems } from "./validate.ts";

/** What the service has replied, and whether it rejects everything by now (breaker.ts). */
export interface Answer {
  readonly reply: ServiceReply;
  readonly isRejecting: boolean;
  /** Of a 429 or a denial: until when nothing is sent, as far as it is known, ms. */
  readonly stoppedUntil?: number | undefined;
}

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
  send(decision: Sendable, state: TakenState): Promise<Answer>;
  /** @param end how the run ends, for the history of the record. */
  settle(state: TakenState, how: Settlement, end: Omit<RunEnd, "finished">): Promise<SettleResult>;
  /** Whether a write that was just answered is read once more as a spot check. */
  isToBeChecked(): Promise<boolean>;
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
    confirm: state.change.confirm?.why,
    kept: parsed(state.kept),
  };
  const decision = decide(wanted, known, fingerprintOf, state.keeps);
  return { end: await carryOut(decision, state, fingerprintOf, ports), state };
}

const parsed = (text: string | undefined): Readonly<Record<string, unknown>> | undefined =>
  text === undefined ? undefined : (JSON.parse(text) as Readonly<Record<string, unknown>>);

async function carryOut(
  decision: Decision,
  state: TakenState,
  fingerprintOf: FingerprintOf,
  ports: SyncPorts,
): Promise<RunEnd> {
  const { change, row: known } = state;
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
    case "fetch": {
      // What is read once more was admitted before, and what follows from it is asked for again.
      const stop = change.confirm === undefined ? await stopOf(decision, state, ports) : undefined;
      if (stop?.kind === "invalid") return reject(state, "invalid", stop.problems, ports);
      if (stop?.kind === "held") return hold(state, stop.why, stop.fields, ports);
      const isFirstRead = stop?.kind === "read" && decision.kind === "update";
      const sent: Sendable = isFirstRead ? { kind: "fetch", into: decision.body } : decision;
      const { reply, ...answer } = await ports.send(sent, state);
      const { retry } = ports;
      const context = {
        now: ports.now(),
        retry,
        retryShareMs: reply.kind === "unavailable" ? await ports.retryShareMs() : 0,
        fingerprintOf,
        keeps: keepsWith(state.keeps, change.fields?.variant, state.notUnderstood),
        lists: ports.lists(),
        ...answer,
      };
      const settled = settleReply(reply, sent, state, context);
      const { dead, end } = settled;
      if (dead !== undefined) await ports.storeDeadLetter(state, dead.reason, dead.problems);
      // Before the ledger knows it: after a crash in between the change runs again, and has two lines.
      const audited = auditedChange(sent, settled, state);
      if (audited !== undefined) await ports.audit(state, audited);
      const settlement =
        sent.kind === "fetch" ? settled.settlement : { ...settled.settlement, wrote: true };
      const confirm = await spotCheck(reply, settlement, state, ports);
      await ports.settle(
        state,
        confirm === undefined ? settlement : { ...settlement, confirm },
        end,
      );
      return end;
    }
  }
}

/** Whether this write, which was answered, is read once more: an answer alone does not prove that it was stored. */
async function spotCheck(
  { kind }: ServiceReply,
  { finished }: Settlement,
  state: TakenState,
  ports: SyncPorts,
): Promise<Confirm | undefined> {
  const isWritten = (kind === "created" || kind === "updated") && finished;
  if (!isWritten || !(await ports.isToBeChecked())) return undefined;
  const { exists, filled, fingerprint, marks, uncertain } = state.row;
  const before = kind === "created" ? NOTHING : { filled, fingerprint, marks };
  const isKnown = kind === "created" || (exists === true && !uncertain);
  return { why: "stored", since: ports.now(), ...(isKnown && { before }) };
}

type Stop =
  | { readonly kind: "invalid"; readonly problems: readonly Problem[] }
  | { readonly kind: "held"; readonly why: HeldWhy; readonly fields: readonly string[] }
  | { readonly kind: "read" };

/** What keeps a request from being sent; undefined: nothing. */
async function stopOf(
  decision: Sendable,
  state: TakenState,
  ports: SyncPorts,
): Promise<Stop | undefined> {
  const { row: known } = state;
  const problems = unlistedIn(decision, state, ports.lists());
  if (problems.length > 0) return { kind: "invalid", problems };
  const termination = terminationIn(decision, state.status, known);
  if (termination !== undefined && !(await ports.admitTermination(state, termination)))
    return { kind: "held", why: "limit", fields: [] };
  const update = decision.kind === "update" ? fieldUpdate(decision.body, known) : undefined;
  const fields = update === undefined ? [] : await ports.admitUpdate(state, update);
  if (fields === "read") return { kind: "read" };
  return fields.length > 0 ? { kind: "held", why: "emptied", fields } : undefined;
}

/** What the tenant's lists of now refuse of a write. A termination sends what the service has, so it may pass. */
function unlistedIn(
  decision: Sendable,
  state: TakenState,
  lists: TenantLists | undefined,
): readonly Problem[] {
  if (state.status === "terminated" || lists === undefined) return [];
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
  why: HeldWhy,
  fields: readonly string[],
  ports: SyncPorts,
): Promise<RunEnd> {
  const held = { why, ...(fields.length > 0 && { fields }) };
  const settlement = { row: "before", finished: false, held } as const;
  const end = { finished: false, outcome: "held", reason: why } as const;
  const result = await ports.settle(state, settlement, end);
  return result === "settled" ? end : { finished: false, reason: "held" };
}
