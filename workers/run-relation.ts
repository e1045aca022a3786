/** Runs THE PATH for one record with its permit, and reports how it went. */
import { randomUUID } from "node:crypto";
import type { Permit } from "../src/core/quota/permit.ts";
import { DamagedValue, UnknownKey } from "../src/core/state/sealing.ts";
import { afterLetter, deadLetterOf } from "../src/core/sync/settled.ts";
import { deadLetterId } from "../src/core/sync/dead-letter.ts";
import { runStep } from "../src/core/sync/step.ts";
import { retryShareMs } from "../src/core/sync/retry.ts";
import type { ServiceReply } from "../src/core/sync/service-reply.ts";
import { onceMore, type Take, type TakenState } from "../src/core/sync/run.ts";
import type { RunEnd } from "../src/core/sync/outcomes.ts";
import { syncRelation, type SyncPorts } from "../src/core/sync/sync-relation.ts";
import { auditChange } from "./audit-trail.ts";
import { hashOf } from "../src/base/log-names.ts";
import { reportOutcome, reportRetry } from "./report-outcome.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

/** What one run uses. */
export type RunParts = Uses<
  | "clock"
  | "config"
  | "deadLetters"
  | "emptyingGuard"
  | "inbox"
  | "keyring"
  | "line"
  | "log"
  | "metrics"
  | "outage"
  | "rarely"
  | "recordName"
  | "records"
  | "retryLog"
  | "settledLately"
  | "staged"
  | "stateAge"
  | "tenantLists"
  | "terminationGuard"
  | "tracing"
  | "trail"
>;

/**
 * A record stays held this much longer than its request may take, ms. So the request of a process that stood
 * still in between cannot meet that of another process.
 */
export const HOLD_MARGIN_MS = 10_000;

/** A process that stood still for longer than this between taking a record and sending gives the record back, ms. */
const STALE_AFTER_MS = 5000;

const HOUR_MS = 3_600_000;

/** Never throws: a run that was cut short leaves the record held, and in the line at the end of its hold. */
export async function runRelation(
  crmCode: string,
  granted: { readonly permit: Permit; readonly askedAt: number },
  parts: RunParts,
  access: ServiceAccess,
): Promise<void> {
  const { outage, rarely, recordName, tracing } = parts;
  const { permit, askedAt: startedAt } = granted;
  const grantedAt = Date.now();
  try {
    const takenAt = performance.now();
    const taken = await take(crmCode, parts);
    const carried = taken.kind === "taken" ? taken.state.change.trace : undefined;
    await tracing.span("process sync", { carried, startedAt }, () => {
      tracing.past("permit", startedAt, grantedAt);
      return runState(crmCode, parts, access, { taken, takenAt, permit });
    });
  } catch (error) {
    // A newer event of the record replaces a state that cannot be opened.
    const isClosed = error instanceof UnknownKey || error instanceof DamagedValue;
    const record = isClosed ? recordName(crmCode) : undefined;
    rarely.error({ record, err: error }, isClosed ? "change.not_opened" : "change.interrupted");
  } finally {
    // Has no effect on a permit that was used.
    permit.cancel();
    if (access.requestOf(permit) === undefined) await outage.notTried().catch(() => {});
  }
}

/** @throws UnknownKey, DamagedValue when the state cannot be opened. */
async function take(crmCode: string, { config, log, recordName, staged }: RunParts): Promise<Take> {
  const taken = await staged.take(
    crmCode,
    randomUUID(),
    config.SERVICE_TIMEOUT_MS + HOLD_MARGIN_MS,
  );
  if (taken.kind === "lost") log.error({ record: recordName(crmCode) }, "change.lost");
  return taken;
}

async function runState(
  crmCode: string,
  parts: RunParts,
  access: ServiceAccess,
  run: Pick<Run, "taken" | "takenAt" | "permit">,
): Promise<void> {
  let status: number | undefined;
  const ports = syncPorts(parts, access, {
    ...run,
    fingerprintsWithout: await parts.keyring.fingerprintsWithout(),
    onReply(reply) {
      status = reply.kind === "unavailable" ? reply.status : undefined;
    },
  });
  const { end, state } = await syncRelation(crmCode, ports);
  if (state === undefined) return;
  if (isGone(state, end)) parts.metrics.relationsGone.inc();
  if (wasNeverKnown(state, end)) parts.metrics.relationsUnknown.inc();
  report(parts, state, end, status);
}

interface Run extends Pick<SyncPorts, "fingerprintsWithout"> {
  readonly taken: Take;
  /** By performance.now(). */
  readonly takenAt: number;
  readonly permit: Permit;
  readonly onReply: (reply: ServiceReply) => void;
}

function syncPorts(parts: RunParts, access: ServiceAccess, run: Run): SyncPorts {
  const { fingerprintsWithout, onReply, permit, taken, takenAt } = run;
  const { config, settledLately, staged } = parts;
  return {
    take: async () => taken,
    admitTermination: (state, when) => parts.terminationGuard.admit(approvalOf(state), when),
    admitUpdate: (state, update) => parts.emptyingGuard.admit(approvalOf(state), update),
    async send(decision, state) {
      if (performance.now() - takenAt > STALE_AFTER_MS) {
        const reply = { kind: "unavailable", reason: "slept", ambiguous: false } as const;
        return { reply, isRejecting: false };
      }
      const answer = await access.send(permit, decision, state);
      const { reply } = answer;
      // A termination now sends these values back, without those that are no longer on the tenant's lists:
      // another process may have stored newer lists since this one last looked.
      if (reply.kind === "found" && state.status === "terminated") {
        await parts.tenantLists.reload();
      }
      onReply(reply);
      return answer;
    },
    async settle(state, how, end) {
      const result = await staged.settle(state, how, runStep(access.requestOf(permit), end));
      if (result !== "lost") settledLately.note(state, how, parts.clock.now());
      // Redis went back and lost the change while it was sent: an older state of the
      // record may be sent after it.
      if (result === "lost" && (await parts.stateAge.wentBackWithin(config.SERVICE_TIMEOUT_MS * 2)))
        await staged.stage(onceMore(state));
      return result;
    },
    isToBeChecked: () => parts.outage.isToBeChecked(),
    audit: (state, change) => auditChange(parts.trail, state, change),
    async storeDeadLetter(state, reason, problems) {
      await parts.deadLetters.store(
        deadLetterOf(state, { reason, problems, at: parts.clock.now() }),
      );
      const next = afterLetter(state, { problems, reason });
      if (next === "doubt_lists") await parts.tenantLists.doubt(parts.clock.now());
      if (next === "redrive") await parts.inbox.redrive(deadLetterId(state.crmCode));
    },
    now: () => parts.clock.now(),
    lists: () => parts.tenantLists.known(),
    fingerprintsWithout,
    retry: {
      baseMs: config.RETRY_BASE_MS,
      giveUpMs: config.RETRY_MAX_HOURS * HOUR_MS,
      holdMs: config.SERVICE_TIMEOUT_MS,
      verifyMs: parts.records.verifyMs,
      random: Math.random,
    },
    async retryShareMs() {
      // If this fails, the retry has its own delay: what was sent must be settled all the same.
      const waiting = await parts.line.laterCount().catch(() => 0);
      return retryShareMs(waiting, {
        perHour: config.QUOTA_PER_HOUR,
        hourMs: config.QUOTA_HOUR_MS,
      });
    },
  };
}

const approvalOf = ({ change, crmCode }: TakenState) => ({
  approved: change.approved === true,
  crmCode,
});

/** Whether the service has lost a relation that the ledger knew, not from a 409 of this change alone. */
function isGone({ change, row }: TakenState, { reason }: RunEnd): boolean {
  if (row.exists !== true || change.tries?.heals !== undefined) return false;
  return reason === "missing" || (reason === "nothing_to_terminate" && !row.terminated);
}

/** Whether a deletion came without its record, and neither an event nor the service has ever told of the relation. */
const wasNeverKnown = ({ orders, row }: TakenState, { reason }: RunEnd): boolean =>
  reason === "nothing_to_terminate" && orders.fields === "" && row.exists !== true;

/** @param status HTTP status of a reply that was `unavailable`. */
function report(parts: RunParts, state: TakenState, end: RunEnd, status: number | undefined): void {
  const { change, crmCode, lane } = state;
  const { failed: tries = 0 } = change.tries ?? {};
  const { outcome, problems, reason } = end;
  const common = { crmCode, lane, tries };
  switch (outcome) {
    case "created":
    case "updated":
      reportOutcome(parts, { ...common, outcome, happenedAt: change.firstTime });
      return;
    case "skipped": {
      const skipped = reason === "nothing_to_terminate" ? reason : "unchanged";
      reportOutcome(parts, { ...common, outcome: skipped, happenedAt: change.firstTime });
      return;
    }
    case "rejected":
      reportOutcome(parts, { ...common, outcome, reason, problems });
      return;
    case "held":
      parts.log.warn(
        { record: parts.recordName(crmCode), lane },
        reason === "emptied" ? "update.held" : "termination.held",
      );
      reportUnfinished(parts, state, end, status);
      return;
    case "unavailable":
    case "throttled":
    case "denied":
    case undefined:
      reportUnfinished(parts, state, end, status);
  }
}

/** The run ended, the change did not: it is retried later, or sent again at once. */
function reportUnfinished(
  parts: RunParts,
  state: TakenState,
  { outcome, reason }: RunEnd,
  status: number | undefined,
): void {
  const { change, crmCode, lane } = state;
  const { failed: tries = 0 } = change.tries ?? {};
  const { log, metrics, recordName, tracing } = parts;
  const record = recordName(crmCode);
  if (reason === "overwritten") log.warn({ record }, "change.overwritten");
  if (reason === "not_stored") {
    metrics.relationsNotStored.inc();
    log.warn({ record }, "change.not_stored");
  }
  tracing.note(() => ({
    "crmsync.outcome": outcome ?? "requeued",
    "crmsync.reason": reason,
    "crmsync.lane": lane,
    "crmsync.record": hashOf(crmCode),
    "crmsync.tries": tries,
  }));
  if (outcome === "unavailable") return reportRetry(parts, state, reason ?? "other", status);
  log.debug({ record, outcome, reason, lane, tries }, "change.requeued");
}
