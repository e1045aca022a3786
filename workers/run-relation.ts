/** Runs THE PATH for one pointer job with its permit, and ends the job as the path says. */
import type { Job } from "bullmq";
import type { Permit } from "../src/quota/permit.ts";
import { isPointer, type FirstJob, type Pointer } from "../src/state/pointer-queue.ts";
import { NOT_OPENED } from "../src/state/retried-records.ts";
import { DamagedValue, UnknownKey } from "../src/state/sealing.ts";
import { deadLetterOf } from "../src/sync/dead-letter-of.ts";
import { runStep } from "../src/sync/noted.ts";
import { retryShareMs } from "../src/sync/retry-delay.ts";
import type { ServiceReply } from "../src/sync/service-reply.ts";
import type { StateToStage, Take, TakenState } from "../src/sync/staged-state.ts";
import type { Next, RunEnd } from "../src/sync/run-end.ts";
import { syncRelation, type SyncPorts } from "../src/sync/sync-relation.ts";
import { auditChange } from "./audit-trail.ts";
import { hashOf } from "./log-names.ts";
import { reportOutcome } from "./report-outcome.ts";
import { reportRetry } from "./report-retry.ts";
import type { Runtime } from "./runtime.ts";
import { retryAfterSuccess, type ServiceAccess } from "./service-access.ts";

/**
 * A record stays held this much longer than its request may take, ms. So the request of a process that stood
 * still in between cannot meet that of another process.
 */
const HOLD_MARGIN_MS = 10_000;

/** A process that stood still for longer than this between taking a record and sending gives the record back, ms. */
const STALE_AFTER_MS = 5000;

const HOUR_MS = 3_600_000;

/** How long a state that this process cannot open waits before the next try, ms. */
const KEY_WAIT_MS = 10_000;

/** @returns what the job does next; undefined when the run was cut short. */
export async function runRelation(
  job: Job<Pointer>,
  token: string,
  permit: Permit,
  runtime: Runtime,
  access: ServiceAccess,
  early?: EarlyTake,
): Promise<Next | undefined> {
  try {
    if (!isPointer(job.data)) return await endForeign(runtime, job, token);
    return await runState(job, runtime, access, { token, permit, early }).catch(
      (error: unknown) => {
        if (!(error instanceof UnknownKey || error instanceof DamagedValue)) throw error;
        return waitForKey(runtime, job, token, error);
      },
    );
  } catch (error) {
    // The record is held and its job locked until both expire; then it is run again.
    runtime.rarely.error({ err: error }, "change.interrupted");
    return undefined;
  } finally {
    // Has no effect on a permit that was used.
    permit.cancel();
    if (access.requestOf(permit) === undefined) await runtime.outage.notTried().catch(() => {});
  }
}

/** @throws UnknownKey, DamagedValue when the state cannot be opened. */
async function runState(
  job: Job<Pointer>,
  runtime: Runtime,
  access: ServiceAccess,
  run: Pick<Run, "token" | "permit" | "early">,
): Promise<Next> {
  let status: number | undefined;
  const ports = syncPorts(runtime, access, {
    ...run,
    fingerprintsWithout: await runtime.keyring.fingerprintsWithout(),
    onReply(reply) {
      status = reply.kind === "unavailable" ? reply.status : undefined;
    },
  });
  const { end, state } = await syncRelation(job.data.crmCode, ports);
  if (state !== undefined && isGone(state, end)) runtime.metrics.relationsGone.inc();
  if (state !== undefined) report(runtime, state, end, status);
  await endJob(runtime, job, run.token, end.next);
  return end.next;
}

/** Ends a job of another kind, which somebody has added to the queue: it names no record, so nothing is lost. */
async function endForeign(runtime: Runtime, job: Job, token: string): Promise<Next> {
  runtime.rarely.warn({}, "sync.foreign_job");
  await job.moveToCompleted("", token, false);
  return { kind: "complete" };
}

/** The state cannot be opened. It stays as it is; a newer event of the record replaces it. */
async function waitForKey(
  runtime: Runtime,
  job: Job<Pointer>,
  token: string,
  error: UnknownKey | DamagedValue,
): Promise<Next> {
  const { rarely, recordName, retried } = runtime;
  const { crmCode } = job.data;
  const record = recordName(crmCode);
  rarely.error({ record, err: error }, "change.not_opened");
  const why = error instanceof UnknownKey ? `sealed with the key ${error.keyId}` : "damaged";
  await retried.failed(crmCode, { reason: `${NOT_OPENED}: ${why}`, record: hashOf(crmCode) });
  const next = { kind: "later", at: Date.now() + KEY_WAIT_MS } as const;
  await endJob(runtime, job, token, next);
  return next;
}

/** A record that is taken while Redis is still giving out its job. */
export interface EarlyTake {
  readonly crmCode: string;
  /** By `performance.now()`. */
  readonly at: number;
  /** Undefined when this process did not get the job. */
  readonly taken: Promise<Take | undefined>;
}

/** The job must have been asked for on the same connection: Redis answers in this order. */
export function takeEarly({ config, staged }: Runtime, job: FirstJob, token: string): EarlyTake {
  const taken = staged.takeWithJob(job, token, config.SERVICE_TIMEOUT_MS + HOLD_MARGIN_MS);
  // If this process does not get the job, an error here concerns no run.
  taken.catch(() => {});
  return { crmCode: job.crmCode, at: performance.now(), taken };
}

interface Run extends Pick<SyncPorts, "fingerprintsWithout"> {
  /** Of the pointer job. */
  readonly token: string;
  readonly permit: Permit;
  readonly early: EarlyTake | undefined;
  readonly onReply: (reply: ServiceReply) => void;
}

function syncPorts(runtime: Runtime, access: ServiceAccess, run: Run): SyncPorts {
  const { early, fingerprintsWithout, onReply, permit, token } = run;
  const { config, log, recordName, settledLately, staged } = runtime;
  let takenAt = 0;
  return {
    async take(crmCode) {
      let taken = early?.crmCode === crmCode ? await early.taken : undefined;
      takenAt = early?.at ?? 0;
      if (taken === undefined) {
        takenAt = performance.now();
        taken = await staged.take(crmCode, token, config.SERVICE_TIMEOUT_MS + HOLD_MARGIN_MS);
      }
      if (taken.kind === "lost") log.error({ record: recordName(crmCode) }, "change.lost");
      return taken;
    },
    admitTermination: (crmCode, when) => runtime.terminationGuard.admit(crmCode, when),
    async send(decision, { crmCode, status }) {
      if (performance.now() - takenAt > STALE_AFTER_MS) {
        return { kind: "unavailable", reason: "slept", ambiguous: false };
      }
      const reply = await access.send(permit, decision, crmCode);
      // A termination now sends these values back, without those that are no longer on the tenant's lists:
      // another process may have stored newer lists since this one last looked.
      if (reply.kind === "found" && status === "terminated") await runtime.tenantLists.reload();
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
    audit: (state, change) => auditChange(runtime.trail, state, change),
    async storeDeadLetter(state, reason, problems) {
      await runtime.deadLetters.store(deadLetterOf(state, { reason, problems, at: Date.now() }));
      // After the letter is stored: changed lists may redrive it.
      if (reason === "service_rejected") await runtime.tenantLists.doubt(runtime.clock.now());
    },
    now: Date.now,
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
      const waiting = await runtime.pointers.retries().catch(() => 0);
      return retryShareMs(waiting, {
        perHour: config.QUOTA_PER_HOUR,
        hourMs: config.QUOTA_HOUR_MS,
      });
    },
  };
}

/** The state to stage again, with the order of its own event: whatever is newer stays newer. */
const onceMore = (state: TakenState): StateToStage => ({
  ...state,
  eventKey: "",
  fingerprint: undefined,
  fieldsOrder: state.earlierFields?.order,
  // Nobody may drop it with an import, and it must not wait behind one.
  lane: "live",
  time: state.firstTime,
});

/** Whether the service has lost a relation that the ledger knew, not from a 409 of this change alone. */
function isGone({ heals, row }: TakenState, { reason }: RunEnd): boolean {
  if (row?.exists !== true || heals > 0) return false;
  return reason === "missing" || (reason === "nothing_to_terminate" && !row.terminated);
}

/** Ends the job as the path says. */
async function endJob(
  { pointers }: Runtime,
  job: Job<Pointer>,
  token: string,
  next: Next,
): Promise<void> {
  switch (next.kind) {
    case "complete":
      await job.moveToCompleted("", token, false);
      await pointers.restore(job.data.crmCode);
      return;
    case "again":
      await job.moveToWait(token);
      return;
    case "parked":
      await pointers.park(job, token);
      return;
    case "later":
      await job.moveToDelayed(Math.max(next.at, Date.now() + 1), token);
      return;
  }
}

/** @param status HTTP status of a reply that was `unavailable`. */
function report(
  runtime: Runtime,
  state: TakenState,
  end: RunEnd,
  status: number | undefined,
): void {
  const { crmCode, lane, tries } = state;
  if (end.next.kind === "complete") void runtime.retried.ended(crmCode).catch(() => {});
  const { outcome, problems, reason } = end;
  const common = { crmCode, lane, tries };
  switch (outcome) {
    case "created":
    case "updated":
      if (tries > 0) void retryAfterSuccess(runtime).catch(() => {});
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
      runtime.log.warn({ record: runtime.recordName(crmCode), lane }, "termination.held");
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
  const { crmCode, lane, tries } = state;
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
