/** One pointer job with its permit: runs THE PATH and ends the job as the path says. */
import type { Job } from "bullmq";
import type { Permit } from "../src/quota/permit.ts";
import type { Pointer } from "../src/state/pointer-queue.ts";
import type { TakenState } from "../src/sync/staged-state.ts";
import { deadIdOf } from "../src/sync/dead-letter.ts";
import {
  syncRelation,
  type Next,
  type Sendable,
  type SyncEnd,
  type SyncPorts,
} from "../src/sync/sync-relation.ts";
import { fieldsOf, hashed } from "./log-names.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/**
 * A record stays held this much longer than its request may take, so that a process that slept
 * in between cannot meet another one's request.
 */
const HOLD_MARGIN_MS = 10_000;

/** A process that lost this much time between taking a record and sending gives it back, ms. */
const STALE_AFTER_MS = 5000;

export async function runRelation(
  job: Job<Pointer>,
  token: string,
  permit: Permit,
  runtime: Runtime,
  access: ServiceAccess,
): Promise<void> {
  const { config, log, throttle } = runtime;
  const { crmCode } = job.data;
  let takenAt = 0;

  const ports: SyncPorts = {
    async take(code) {
      takenAt = performance.now();
      return runtime.staged.take(code, token, config.SERVICE_TIMEOUT_MS + HOLD_MARGIN_MS);
    },
    async send(decision: Sendable, state) {
      if (performance.now() - takenAt > STALE_AFTER_MS) {
        return { kind: "unavailable", reason: "slept", ambiguous: false };
      }
      return access.send(permit, decision, state.crmCode);
    },
    settle: (state, how) => runtime.staged.settle(state, how),
    async storeDeadLetter(state, reason, problems) {
      if (reason === "service_rejected") await runtime.tenantLists.doubt();
      const { source } = JSON.parse(state.event) as { source?: string };
      await runtime.deadLetters.store({
        id: deadIdOf(state.crmCode),
        reason,
        problems,
        source,
        event: state.event,
        crmCode: state.crmCode,
        order: state.order,
        at: Date.now(),
      });
    },
    now: Date.now,
    retry: {
      baseMs: config.RETRY_BASE_MS,
      giveUpMs: config.RETRY_MAX_HOURS * 3_600_000,
      holdMs: config.SERVICE_TIMEOUT_MS,
      random: Math.random,
    },
  };

  try {
    const { end, state } = await syncRelation(crmCode, ports);
    if (state !== undefined) report(runtime, state, end);
    await finish(job, token, end.next);
  } catch (error) {
    // The record is held and its job locked until both run out; then it comes again.
    throttle("sync.run", (held) => log.error({ err: error, held }, "change.interrupted"));
  } finally {
    // Does nothing to one that was used.
    permit.cancel();
  }
}

/** What the path says of the job, done to the job. */
async function finish(job: Job<Pointer>, token: string, next: Next): Promise<void> {
  switch (next.kind) {
    case "complete":
      await job.moveToCompleted("", token, false);
      return;
    case "again":
      await job.moveToWait(token);
      return;
    case "later":
      await job.moveToDelayed(Math.max(next.at, Date.now() + 1), token);
      return;
  }
}

function report(runtime: Runtime, state: TakenState, end: SyncEnd): void {
  const { metrics, log } = runtime;
  const { outcome, reason } = end;
  runtime.tracing.note({
    "crmsync.outcome": outcome ?? "again",
    "crmsync.reason": reason,
    "crmsync.lane": state.lane,
    "crmsync.record": hashed(state.crmCode),
    "crmsync.tries": state.tries,
  });
  const record = runtime.logName(state.crmCode);
  const freshness = Math.max(0, (Date.now() - state.firstTime) / 1000);
  const line = { record, outcome, reason, lane: state.lane, tries: state.tries };
  switch (outcome) {
    case "created":
    case "updated":
    case "skipped":
      metrics.changes.inc({
        outcome:
          outcome !== "skipped"
            ? outcome
            : reason === "nothing_to_terminate"
              ? "nothing_to_terminate"
              : "unchanged",
      });
      metrics.freshness.observe({ lane: state.lane }, freshness);
      log.info({ ...line, freshness_s: freshness }, "change.settled");
      return;
    case "rejected":
      metrics.changes.inc({ outcome: "rejected" });
      metrics.rejected.inc({ reason: reason ?? "service_rejected" });
      log.info({ ...line, fields: fieldsOf(end.problems) }, "change.settled");
      return;
    case "unavailable":
      metrics.putOff(reason ?? "other");
      log.debug(line, "change.retry_scheduled");
      return;
    case "throttled":
    case "denied":
    case undefined:
      log.debug(line, "change.requeued");
      return;
  }
}
