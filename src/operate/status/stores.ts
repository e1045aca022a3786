/** Everything of one tenant in Redis, for the daemon and for the commands. */
import type { Redis } from "ioredis";
import { quotaLimits, type Config } from "../../base/config.ts";
import { Inbox } from "../../core/event/inbox.ts";
import { NO_TRACING, type Tracing } from "../../base/tracing.ts";
import { quotaReading } from "../../core/quota/quota.ts";
import { Approvals } from "../../core/state/approvals.ts";
import { AuditActs } from "../../core/state/audit-acts.ts";
import { Interruptions } from "../../core/state/interruptions.ts";
import { DeadLetterExpiry } from "../../core/state/dead-letter-expiry.ts";
import { DeadLetters } from "../../core/state/dead-letters.ts";
import { Differences } from "../../core/state/differences.ts";
import { DoubleRelations } from "../../core/state/double-relations.ts";
import { ServiceDenial } from "../../core/state/denial.ts";
import { keysOf } from "../../core/state/keys.ts";
import { Ledger } from "../../core/state/ledger.ts";
import { EndedSessions } from "../../core/state/ended-sessions.ts";
import { QualityRuns } from "../../core/state/quality-runs.ts";
import { Notifications } from "../../core/state/notifications.ts";
import { OwnMemory } from "../../core/state/own-memory.ts";
import { Outage } from "../../core/state/outage.ts";
import { slicedCounts } from "../../core/state/outcomes.ts";
import { Line } from "../../core/state/line.ts";
import { RecordStore } from "../../core/state/record-store.ts";
import { History } from "../../core/state/history.ts";
import { HeldTerminations } from "../../core/state/held-terminations.ts";
import { Heartbeats } from "../../core/state/heartbeats.ts";
import { BulkChanges, BulkPauses } from "../../core/state/bulk-changes.ts";
import { Keyring } from "../../core/state/keyring.ts";
import { StoredKeptFields } from "../../core/state/kept-fields.ts";
import { KnownRecords } from "../../core/state/known-records.ts";
import { KnownService } from "../../core/state/known-service.ts";
import { Resealing } from "../../core/state/reseal.ts";
import { ReconcileRuns } from "../../core/state/reconcile-runs.ts";
import { CrmChecks } from "../../core/state/crm-checks.ts";
import { Pulls } from "../../core/state/pulls.ts";
import { Comparisons } from "../../core/state/comparisons.ts";
import { Reconciliations } from "../../core/state/reconciliations.ts";
import { Sealing } from "../../core/state/sealing.ts";
import { Sources } from "../../core/state/sources.ts";
import { RedisClock } from "../../core/state/redis-clock.ts";
import { SettledLately, StateAge } from "../../core/state/state-age.ts";
import { StateVersion } from "../../core/state/state-version.ts";
import { StagedStates } from "../../core/state/staged-state.ts";
import { EmptyingGuard } from "../../core/state/emptying-guard.ts";
import { TerminationGuard } from "../../core/state/termination-guard.ts";
import { StoredTenantLists } from "../../core/state/tenant-lists.ts";
import { ToldOutcomes } from "../../core/state/told-outcomes.ts";
import { ThinEvents } from "../../core/state/thin-events.ts";

/** Probes of a service that denies access, at most: twelve in one hour window. */
const PROBES_PER_HOUR = 12;

/** That the service rejects everything is believed after this part of the hour window: five minutes. */
const BELIEF_PER_HOUR = 12;

/** A proof that a late request may have overwritten is verified after this part of the hour window. */
const VERIFY_AFTER_HOURS = 1 / 12;

/** Terminations of so many hour windows count together. */
const TERMINATION_HOURS = 24;

/** Parts of an hour, and of a day, in which counts are kept apart. */
const MINUTES = 60;
const HOURS = 24;

export type Stores = ReturnType<typeof openStores>;

/** @param redis closed with the stores. */
export function openStores(config: Config, redis: Redis, tracing: Tracing = NO_TRACING) {
  const prefix = config.QUEUE_PREFIX;
  const keys = keysOf(prefix);
  const sealing = new Sealing(config.stateKeys);
  const clock = new RedisClock(redis, keys);
  const now = () => clock.now();
  const heartbeats = new Heartbeats(redis, keys);
  const history = new History(redis, keys, config.HISTORY_DAYS);
  const age = new StateAge(redis, keys);
  const inbox = new Inbox(redis, prefix, sealing, tracing.bullmq);
  const hourMs = config.QUOTA_HOUR_MS;
  const told = new ToldOutcomes(redis, keys, sealing, { hourMs, isOn: config.tellsOutcomes });
  const records = new RecordStore(redis, keys, sealing, {
    history,
    told,
    verifyMs: hourMs * VERIFY_AFTER_HOURS,
  });
  const auditActs = new AuditActs(redis, keys, config.AUDIT_LOG !== undefined, history);
  const thinEvents = new ThinEvents(redis, prefix, { keys, sealing }, tracing.bullmq);
  return {
    config,
    redis,
    keys,
    sealing,
    keyring: new Keyring(redis, keys, sealing, {
      marks: config.AUDIT_LOG !== undefined || config.HISTORY_DAYS > 0,
      token: () => config.secrets.SERVICE_TOKEN?.value(),
    }),
    keptFields: new StoredKeptFields(redis, keys),
    knownService: new KnownService(redis, keys),
    resealing: new Resealing(records),
    inbox,
    records,
    knownRecords: new KnownRecords(records),
    told,
    doubles: new DoubleRelations(records),
    line: new Line(redis, keys),
    thinEvents,
    staged: new StagedStates(records, { age, hourMs }),
    terminationGuard: new TerminationGuard(redis, keys, {
      limit: config.TERMINATE_LIMIT,
      windowMs: config.QUOTA_HOUR_MS * TERMINATION_HOURS,
      now,
    }),
    emptyingGuard: new EmptyingGuard(redis, keys, {
      limit: config.EMPTY_LIMIT,
      windowMs: config.QUOTA_HOUR_MS,
    }),
    heldTerminations: new HeldTerminations(records),
    bulkPauses: new BulkPauses(redis, keys),
    bulkChanges: new BulkChanges(records),
    ledger: new Ledger(redis, keys),
    deadLetters: new DeadLetters(records),
    deadLetterExpiry: new DeadLetterExpiry(redis, keys, config.DEAD_LETTER_DAYS),
    denial: new ServiceDenial(redis, keys, config.QUOTA_HOUR_MS / PROBES_PER_HOUR),
    outage: new Outage(redis, keys, {
      tryMs: config.SERVICE_TIMEOUT_MS,
      believeMs: config.QUOTA_HOUR_MS / BELIEF_PER_HOUR,
      hourMs,
    }),
    sources: new Sources(redis, keys),
    clock,
    ownMemory: new OwnMemory(redis, prefix),
    tenantLists: new StoredTenantLists(redis, keys, config.QUOTA_HOUR_MS),
    heartbeats,
    /** What all processes counted within the last hour, by the minute. */
    outcomes: slicedCounts(redis, {
      key: keys.outcomes,
      sliceMs: config.QUOTA_HOUR_MS / MINUTES,
      slices: MINUTES,
    }),
    /** How long the service took within the last 24 hours, by the hour. */
    durations: slicedCounts(redis, {
      key: keys.durations,
      sliceMs: config.QUOTA_HOUR_MS,
      slices: HOURS,
    }),
    stateAge: age,
    settledLately: new SettledLately(records),
    stateVersion: new StateVersion(redis, keys),
    auditActs,
    interruptions: new Interruptions(redis, keys, auditActs),
    approvals: new Approvals(redis, keys),
    history,
    endedSessions: new EndedSessions(redis, keys),
    reconciliations: new Reconciliations(redis, keys),
    comparisons: new Comparisons(redis, keys),
    differences: new Differences(redis, keys),
    crmChecks: new CrmChecks(redis, keys),
    pulls: new Pulls(redis, keys),
    reconcileRuns: new ReconcileRuns(redis, keys),
    qualityRuns: new QualityRuns(redis, keys),
    notifications: new Notifications(redis, keys, config.QUOTA_HOUR_MS),
    /** Reads the quota without taking part in it. */
    quotaState: quotaReading(quotaLimits(config)),
    /** Closes the queues and the connection. */
    async close(): Promise<void> {
      await Promise.all([inbox.close(), thinEvents.close()]);
      redis.disconnect();
    },
  };
}
