/** Everything of one tenant in Redis, for the daemon and for the commands. */
import type { Redis } from "ioredis";
import { quotaLimits, type Config } from "../config.ts";
import { Inbox } from "../event/inbox.ts";
import { NO_TRACING, type Tracing } from "../ops/tracing.ts";
import { quotaReading } from "../quota/quota.ts";
import { Approvals } from "../state/approvals.ts";
import { AuditActs } from "../state/audit-acts.ts";
import { DeadLetterExpiry } from "../state/dead-letter-expiry.ts";
import { DeadLetters } from "../state/dead-letters.ts";
import { DoubleRelations } from "../state/double-relations.ts";
import { ServiceDenial } from "../state/denial.ts";
import { keysOf } from "../state/keys.ts";
import { Ledger } from "../state/ledger.ts";
import { EndedSessions } from "../state/ended-sessions.ts";
import { Notifications } from "../state/notifications.ts";
import { OwnMemory } from "../state/own-memory.ts";
import { Outage } from "../state/outage.ts";
import { slicedCounts } from "../state/outcomes.ts";
import { Line } from "../state/line.ts";
import { RecordStore } from "../state/record-store.ts";
import { History } from "../state/history.ts";
import { HeldTerminations } from "../state/held-terminations.ts";
import { Heartbeats } from "../state/heartbeats.ts";
import { BulkChanges, BulkPauses } from "../state/bulk-changes.ts";
import { Keyring } from "../state/keyring.ts";
import { StoredKeptFields } from "../state/kept-fields.ts";
import { KnownService } from "../state/known-service.ts";
import { Resealing } from "../state/reseal.ts";
import { ReconcileRuns } from "../state/reconcile-runs.ts";
import { CrmChecks } from "../state/crm-checks.ts";
import { Pulls } from "../state/pulls.ts";
import { Comparisons } from "../state/comparisons.ts";
import { Reconciliations } from "../state/reconciliations.ts";
import { Sealing } from "../state/sealing.ts";
import { Sources } from "../state/sources.ts";
import { RedisClock } from "../state/redis-clock.ts";
import { SettledLately, StateAge } from "../state/state-age.ts";
import { StateVersion } from "../state/state-version.ts";
import { StagedStates } from "../state/staged-state.ts";
import { EmptyingGuard } from "../state/emptying-guard.ts";
import { TerminationGuard } from "../state/termination-guard.ts";
import { StoredTenantLists } from "../state/tenant-lists.ts";
import { ToldOutcomes } from "../state/told-outcomes.ts";
import { ThinEvents } from "../state/thin-events.ts";
import { Verifications } from "../state/verifications.ts";

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
    told,
    doubles: new DoubleRelations(records),
    line: new Line(redis, keys),
    thinEvents,
    staged: new StagedStates(records, { age, hourMs }),
    verifications: new Verifications(records, hourMs),
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
    auditActs: new AuditActs(redis, keys, config.AUDIT_LOG !== undefined, history),
    approvals: new Approvals(redis, keys),
    history,
    endedSessions: new EndedSessions(redis, keys),
    reconciliations: new Reconciliations(redis, keys),
    comparisons: new Comparisons(redis, keys),
    crmChecks: new CrmChecks(redis, keys),
    pulls: new Pulls(redis, keys),
    reconcileRuns: new ReconcileRuns(redis, keys),
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
