/** Runs THE PATH for one record with its permit, and reports how it went. */
import { randomUUID } from "node:crypto";
import { readOne } from "../src/ops/redis-reading.ts";
import type { Permit } from "../src/quota/permit.ts";
import { DamagedValue, UnknownKey } from "../src/state/sealing.ts";
import { deadLetterOf } from "../src/sync/letter.ts";
import { deadLetterId } from "../src/sync/dead-letter.ts";
import { runStep } from "../src/sync/step.ts";
import { retryShareMs } from "../src/sync/settled.ts";
import type { ServiceReply } from "../src/sync/service-reply.ts";
import { bringsFields, type StateToStage, type Take, type TakenState } from "../src/sync/record.ts";
import type { RunEnd } from "../src/sync/outcomes.ts";
import { syncRelation, type SyncPorts } from "../src/sync/sync-relation.ts";
import { isKeptProblem } from "../src/sync/validate.ts";
import { auditChange } from "./audit-trail.ts";
import { hashOf } from "../src/ops/log-names.ts";
import { reportOutcome, reportRetry } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

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
  runtime: Runtime,
  access: ServiceAccess,
): Promise<void> {
  const { outage, rarely, recordName, tracing } = runtime;
  const { permit, askedAt: startedAt } = granted;
  const grantedAt = Date.now();
  try {
    const takenAt = performance.now();
    const taken = await take(crmCode, runtime);
    const carried = taken.kind === "taken" ? taken.state.trace : undefined;
    await tracing.span("process sync", { carried, startedAt }, () => {
      tracing.past("permit", startedAt, grantedAt);
      return runState(crmCode, runtime, access, { taken, takenAt, permit });
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
async function take(crmCode: string, { config, log, recordName, staged }: Runtime): Promise<Take> {
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
  runtime: Runtime,
  access: ServiceAccess,
  run: Pick<Run, "taken" | "takenAt" | "permit">,
): Promise<void> {
  let status: number | undefined;
  const ports = syncPorts(runtime, access, {
    ...run,
    fingerprintsWithout: await runtime.keyring.fingerprintsWithout(),
    onReply(reply) {
      status = reply.kind === "unavailable" ? reply.status : undefined;
    },
  });
  const { end, state } = await syncRelation(crmCode, ports);
  if (state === undefined) return;
  if (isGone(state, end)) runtime.metrics.relationsGone.inc();
  if (wasNeverKnown(state, end)) runtime.metrics.relationsUnknown.inc();
  report(runtime, state, end, status);
}

interface Run extends Pick<SyncPorts, "fingerprintsWithout"> {
  readonly taken: Take;
  /** By performance.now(). */
  readonly takenAt: number;
  readonly permit: Permit;
  readonly onReply: (reply: ServiceReply) => void;
}

function syncPorts(runtime: Runtime, access: ServiceAccess, run: Run): SyncPorts {
  const { fingerprintsWithout, onReply, permit, taken, takenAt } = run;
  const { config, settledLately, staged } = runtime;
  return {
    take: async () => taken,
    admitTermination: (state, when) => runtime.terminationGuard.admit(state, when),
    admitUpdate: (state, update) => runtime.emptyingGuard.admit(state, update),
    async send(decision, state) {
      if (performance.now() - takenAt > STALE_AFTER_MS) {
        return { kind: "unavailable", reason: "slept", ambiguous: false };
      }
      const reply = await access.send(permit, decision, state.crmCode, state);
      // A termination now sends these values back, without those that are no longer on the tenant's lists:
      // another process may have stored newer lists since this one last looked.
      if (reply.kind === "found" && state.status === "terminated") {
        await runtime.tenantLists.reload();
      }
      onReply(reply);
      return reply;
    },
    async settle(state, how, end) {
      const result = await staged.settle(state, how, runStep(access.requestOf(permit), end));
      // What was rejected is not on the service: an older state may still be sent.
      const isThere = how.finished && how.row !== "before";
      if (isThere && result !== "lost") settledLately.note(state);
      // Redis went back and lost the change while it was sent: an older state of the
      // record may be sent after it.
      if (
        result === "lost" &&
        (await runtime.stateAge.wentBackWithin(config.SERVICE_TIMEOUT_MS * 2))
      )
        await staged.stage(onceMore(state));
      return result;
    },
    isToBeChecked: (state) => runtime.verifications.isToBeChecked(state),
    audit: (state, change) => auditChange(runtime.trail, state, change),
    async storeDeadLetter(state, reason, problems) {
      await runtime.deadLetters.store(
        deadLetterOf(state, { reason, problems, at: runtime.clock.now() }),
      );
      // After the letter is stored: changed lists may redrive it.
      if (reason === "service_rejected") await runtime.tenantLists.doubt(runtime.clock.now());
      // The lists have changed since it was mapped: it is mapped by those of now. What the service has stays.
      if (reason === "invalid" && bringsFields(state) && !problems.some(isKeptProblem)) {
        await runtime.inbox.redrive(deadLetterId(state.crmCode));
      }
    },
    now: () => runtime.clock.now(),
    lists: () => runtime.tenantLists.known(),
    fingerprintsWithout,
    retry: {
      baseMs: config.RETRY_BASE_MS,
      giveUpMs: config.RETRY_MAX_HOURS * HOUR_MS,
      holdMs: config.SERVICE_TIMEOUT_MS,
      random: Math.random,
    },
    async retryShareMs() {
      // If this fails, the retry has its own delay: what was sent must be settled all the same.
      const waiting = await readOne(runtime.redis, runtime.line.counts()).catch(() => ({
        later: 0,
      }));
      return retryShareMs(waiting.later, {
        perHour: config.QUOTA_PER_HOUR,
        hourMs: config.QUOTA_HOUR_MS,
      });
    },
  };
}

/** The state to stage again, with the orders of its own events: whatever is newer stays newer. */
export function onceMore(state: TakenState): StateToStage {
  const { crmCode, event, newestEvent, notUnderstood, orders, payload, status, variant, without } =
    state;
  const hasFields = payload !== undefined && bringsFields(state);
  return {
    crmCode,
    eventKey: "",
    order: orders.status,
    ...(hasFields && { payload, fieldsOrder: orders.fields }),
    payload: hasFields ? payload : undefined,
    fingerprint: undefined,
    notUnderstood,
    without,
    variant,
    status,
    // Nobody may drop it with an import, and it must not wait behind one.
    lane: "live",
    time: state.firstTime,
    event: hasFields ? event : newestEvent,
  };
}

/** Whether the service has lost a relation that the ledger knew, not from a 409 of this change alone. */
function isGone({ counts, row }: TakenState, { reason }: RunEnd): boolean {
  if (row.exists !== true || counts.heals > 0) return false;
  return reason === "missing" || (reason === "nothing_to_terminate" && !row.terminated);
}

/** Whether a deletion came without its record, and neither an event nor the service has ever told of the relation. */
const wasNeverKnown = ({ orders, row }: TakenState, { reason }: RunEnd): boolean =>
  reason === "nothing_to_terminate" && orders.fields === "" && row.exists !== true;

/** @param status HTTP status of a reply that was `unavailable`. */
function report(
  runtime: Runtime,
  state: TakenState,
  end: RunEnd,
  status: number | undefined,
): void {
  const {
    counts: { tries },
    crmCode,
    lane,
  } = state;
  const { outcome, problems, reason } = end;
  const common = { crmCode, lane, tries };
  switch (outcome) {
    case "created":
    case "updated":
      reportOutcome(runtime, { ...common, outcome, happenedAt: state.firstTime });
      return;
    case "skipped": {
      const skipped = reason === "nothing_to_terminate" ? reason : "unchanged";
      reportOutcome(runtime, { ...common, outcome: skipped, happenedAt: state.firstTime });
      return;
    }
    case "rejected":
      reportOutcome(runtime, { ...common, outcome, reason, problems });
      return;
    case "held":
      runtime.log.warn(
        { record: runtime.recordName(crmCode), lane },
        reason === "emptied" ? "update.held" : "termination.held",
      );
      reportUnfinished(runtime, state, end, status);
      return;
    case "unavailable":
    case "throttled":
    case "denied":
    case undefined:
      reportUnfinished(runtime, state, end, status);
  }
}

/** The run ended, the change did not: it is retried later, or sent again at once. */
function reportUnfinished(
  runtime: Runtime,
  state: TakenState,
  { outcome, reason }: RunEnd,
  status: number | undefined,
): void {
  const {
    counts: { tries },
    crmCode,
    lane,
  } = state;
  const { log, recordName, tracing } = runtime;
  tracing.note(() => ({
    "crmsync.outcome": outcome ?? "requeued",
    "crmsync.reason": reason,
    "crmsync.lane": lane,
    "crmsync.record": hashOf(crmCode),
    "crmsync.tries": tries,
  }));
  if (outcome === "unavailable") return reportRetry(runtime, state, reason ?? "other", status);
  log.debug({ record: recordName(crmCode), outcome, reason, lane, tries }, "change.requeued");
}
