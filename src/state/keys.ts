/**
 * Every Redis key that crmsync itself writes, except the quota's under `<prefix>:quota:`
 * (quota-keys.ts). BullMQ's keys are under `<prefix>:<queue>:`. All share the hash tag of the
 * prefix, so one tenant is in one hash slot of a Redis Cluster and a script may use several keys.
 */
import type { Lane } from "../event/lane.ts";
import { digestOf, digestOfRecord } from "./digest.ts";

export interface Keys {
  /** Hash `version`, `state`: the newest change of one record (`Staged` in sync/staged-state.ts, as JSON). */
  readonly staged: (crmCode: string) => string;
  /** Sorted set crmCode → from when on it may be sent, ms: one line for each lane. */
  readonly line: (lane: Lane) => string;
  /** Sorted set crmCode → until when a worker has taken it, ms. */
  readonly inFlight: string;
  /** Sorted set crmCode → when it is read once more, ms: a late request may have taken effect since. */
  readonly verify: string;
  /** Hash: hash of a record of the CRM → the crmCode to which it led, where its own id does not say it. */
  readonly subjects: string;
  /** Sorted set [older crmCode, newer one], as JSON → when a record of the CRM got the newer one, ms. */
  readonly doubles: string;
  /** Set: objects of the CRMs, such as `contact`, of which an event was noted. */
  readonly objects: string;
  /** Counter: states that were staged. */
  readonly stagedCount: string;
  /** Counter: live changes in one slice of the hour (sync/slices.ts); expires. */
  readonly flow: (slice: number) => string;
  /** What records did after their first change, as JSON (sync/rank.ts). */
  readonly firstChanges: string;
  /** Name of the service that the ledger is about (known-service.ts). */
  readonly service: string;
  /** Set: names of the tokens that are known to be of the ledger's tenant. */
  readonly serviceTokens: string;
  /** Hash crmCode → row: what was last proven to be on the service (ledger-row.ts), as JSON. */
  readonly ledger: string;
  /**
   * Hash: how far the ledger's warm-up got; `state` is `done` when the ledger is warm, and `epoch` counts how
   * often the whole ledger was forgotten.
   */
  readonly warmUp: string;
  /** Row of a record whose traces were erased: only its orders; named by a hash. */
  readonly erased: (crmCode: string) => string;
  /** Hash: latest, the latest time that Redis told; stepMs and steppedAt, of the last step of its clock. */
  readonly clock: string;
  /**
   * Hash: `name`; `number`, which all processes count up; and for each process the number that it has met
   * last. A lower number than before means that Redis has lost writes (state-age.ts).
   */
  readonly age: string;
  /** Hash version, target: which programs may work on all of this (state-version.ts). */
  readonly stateVersion: string;
  /** Set while one process migrates the state. */
  readonly stateMigration: string;
  /** When Redis was found to have gone backwards, ms; expires. */
  readonly wentBackwards: string;
  /** Set while one process warms the ledger. */
  readonly warmUpOwner: string;
  /** Set until the next sweep of any process is due. */
  readonly sweeping: string;
  /** Set while the ledger needs no sweeping. */
  readonly ledgerSwept: string;
  /** Sorted set crmCode → when its first unsynced event arrived, ms. */
  readonly unsynced: (lane: Lane) => string;
  /** Sorted set crmCode → when its termination was sent last, ms; those of the last 24 hours count. */
  readonly terminations: string;
  /** Sorted set crmCode → since when its termination is held for a person, ms. */
  readonly heldTerminations: string;
  /** Sorted set of the updates of the last hour, by their time: which fields had a value, and which lost it. */
  readonly fieldUpdates: string;
  /** Set for seven days once the event of this key (a hash) was accepted. */
  readonly seen: (digest: string) => string;
  /** Hash id → dead letter, as JSON. */
  readonly deadLetters: string;
  /** Hash id → what the letter knows of its record's events (`LetterMark` in sync/letter.ts), as JSON. */
  readonly deadMarks: string;
  /** Hash reason → number of dead letters; the scripts make this name from that of `deadLetters`. */
  readonly deadReasons: string;
  /** Sorted set id → what `deadTime` had counted when the letter was stored, ms. */
  readonly deadAges: string;
  /** Hash: the time by which dead letters expire, as far as it was counted (lua/expire-dead-letters.lua). */
  readonly deadTime: string;
  /** Hash with one field: cause of the denial → since when, and when the next probe is due. */
  readonly denial: string;
  /** After how many probes the last one ended; expires. */
  readonly denialEnded: string;
  /** Hash with one field: the circuit breaker (src/sync/breaker.ts). */
  readonly outage: string;
  /** Set for one probe pause after a record was answered 403; `due` until one process probes. */
  readonly probeAsked: string;
  /** Hash: the tenant's value lists as last fetched from the service, and when. */
  readonly schemaConfig: string;
  /** Hash crmCode → newest event of a record that was sent without a value which the lists lack (left-out.ts), as JSON. */
  readonly leftOut: string;
  /** Hash field → how many records were sent without a value of it. */
  readonly leftOutCounts: string;
  /** Set while one process fetches the value lists. */
  readonly schemaConfigAsking: string;
  /** Hash event source → time of its newest event, ms. */
  readonly sources: string;
  /** Hash event source → by how much its clock was ahead, and when, as JSON. */
  readonly clocksAhead: string;
  /** Hash webhook → when its CRM reported last that it had lost changes, ms; expires. */
  readonly changesLost: string;
  /** Sorted set time of arrival, ms → highest number of an event that arrived then. */
  readonly arrivals: string;
  /** Hash process id → its last heartbeat, as JSON. */
  readonly heartbeats: string;
  /** Prefix; a slice's number follows. Hash name → count of all processes in 1/60 of an hour; expires. */
  readonly outcomes: string;
  /** Prefix; a slice's number follows. Hash bucket → replies of the service in an hour; expires. */
  readonly durations: string;
  /** Sorted set crmCode → since when the tries of its record fail, ms. */
  readonly retried: string;
  /** Set for a while once the events of a signed request, or the changes that a CRM has lost, were stored. */
  readonly request: (hash: string) => string;
  /** Hash `<CRM>|<subject>` → newest thin event of a record that must be fetched, as JSON. */
  readonly thinEvents: string;
  /** The key of the ledger's fingerprints, sealed with the first key of STATE_KEY (keyring.ts). */
  readonly keyring: string;
  /** The mapping's kept fields by variant, as JSON: what fingerprints leave out (kept-fields.ts). */
  readonly keptFields: string;
  /** What the last check of each CRM found (crm-checks.ts), as JSON. */
  /** Where the pulls of each CRM stand. */
  readonly pulls: string;
  readonly pullOwner: (crm: string) => string;
  readonly pulledIds: (crm: string, object: string) => string;
  readonly crmChecks: string;
  /** Set while one process checks the CRMs. */
  readonly crmChecking: string;
  /** Set while one process seals everything again with the present key. */
  readonly resealing: string;
  /** What the last pass of sealing again found, as JSON; absent when nothing was left to seal. */
  readonly resealed: string;
  /** List of acts that have no line in an audit trail yet: `<ms> <JSON>`. */
  readonly auditActs: string;
  /** Set while one process writes the lines of these acts. */
  readonly auditOwner: string;
  /** Hash chain of an audit trail → its newest line, as JSON. */
  readonly auditHeads: string;
  /** Hash: what the last reconciliation found (fields: reconciliations.ts). */
  readonly reconciliation: string;
  /** Sorted set comparison, as JSON → when it ended, ms: the last ones; expires. */
  readonly comparisons: string;
  /** Hash: how far a plan was carried out; expires. */
  readonly plan: (id: string) => string;
  /** Hash: the plan that was begun last and is not finished (fields: lua/note-plan.lua); expires. */
  readonly feedingPlan: string;
  /** Hash id → how far each plan is that was begun and is not finished. */
  readonly unfinishedPlans: string;
  /** Set while one process carries out a plan. */
  readonly planOwner: string;
  /** Set after somebody has logged out of the console, for as long as the session's cookie would be valid. */
  readonly endedSession: (id: string) => string;
  /** Set while an operator has paused the lane bulk: since when, by whom and why, as JSON. */
  readonly bulkPause: string;
  /** Hash source → how the last reconciliation that a daemon began has ended, as JSON. */
  readonly reconcileRun: string;
  /** Hash done, next: until when and from when scheduled reconciliations are due, ms. */
  readonly reconcileSchedule: string;
  /** Set while one process reconciles by itself. */
  readonly reconcileOwner: string;
  /** Hash host → what it sees in RECONCILE_DIR, as JSON; expires. */
  readonly reconcileFolders: string;
  /** Sorted set hash of a kind of export → `asOf` of its newest export that was carried out, ms. */
  readonly reconcileNewest: string;
  /**
   * Steps of a record by its crmCode, or by its subject while no crmCode is known; expires. A first step
   * may lie in the staged hash.
   */
  readonly history: (of: "crmCode" | "subject", name: string) => string;
  /** crmCodes to which the record of a CRM led lately; expires with its history. */
  readonly historyCodes: (subject: string) => string;
  /** Since when histories are kept without a gap, ms. */
  readonly historySince: string;
  /** What has been notified, as JSON. */
  readonly notify: string;
  /** List: notifications that wait, as JSON; the oldest first. */
  readonly notifyQueue: string;
  /** Hash: the tries of the oldest notification (fields: lua/take-message.lua). */
  readonly notifyTry: string;
  /** Set after one process has looked for what is to be notified. */
  readonly notifyLook: string;
  /** Counter: bulk changes that an operator has dropped and that no process has counted yet. */
  readonly bulkCancelled: string;
  /**
   * Channel: the lane that has got work; `paused` when the lane bulk was paused;
   * `look` when every process is to look now (job-notifier.ts).
   */
  readonly jobsAdded: string;
}

export function keysOf(prefix: string): Keys {
  return {
    staged: (crmCode) => `${prefix}:staged:${crmCode}`,
    line: (lane) => `${prefix}:line:${lane}`,
    inFlight: `${prefix}:line:in-flight`,
    verify: `${prefix}:verify`,
    subjects: `${prefix}:subjects`,
    doubles: `${prefix}:doubles`,
    objects: `${prefix}:objects`,
    stagedCount: `${prefix}:staged-count`,
    flow: (slice) => `${prefix}:quota:flow:${slice}`,
    firstChanges: `${prefix}:quota:first-changes`,
    service: `${prefix}:service`,
    serviceTokens: `${prefix}:service:tokens`,
    ledger: `${prefix}:ledger`,
    warmUp: `${prefix}:warm-up`,
    erased: (crmCode) => `${prefix}:erased:${cut(digestOfRecord(crmCode))}`,
    clock: `${prefix}:clock`,
    age: `${prefix}:age`,
    stateVersion: `${prefix}:state-version`,
    stateMigration: `${prefix}:state-version:migration`,
    wentBackwards: `${prefix}:went-backwards`,
    warmUpOwner: `${prefix}:warm-up:owner`,
    sweeping: `${prefix}:sweeping`,
    ledgerSwept: `${prefix}:ledger:swept`,
    unsynced: (lane) => `${prefix}:unsynced:${lane}`,
    terminations: `${prefix}:terminations`,
    heldTerminations: `${prefix}:terminations:held`,
    fieldUpdates: `${prefix}:updates:fields`,
    seen: (digest) => `${prefix}:seen:${cut(digest)}`,
    deadLetters: `${prefix}:dead-letters`,
    deadMarks: `${prefix}:dead-letters:marks`,
    deadReasons: `${prefix}:dead-letters:reasons`,
    deadAges: `${prefix}:dead-letters:ages`,
    deadTime: `${prefix}:dead-letters:time`,
    denial: `${prefix}:denial`,
    denialEnded: `${prefix}:denial:ended`,
    outage: `${prefix}:outage`,
    probeAsked: `${prefix}:denial:probe`,
    schemaConfig: `${prefix}:schema-config`,
    leftOut: `${prefix}:left-out`,
    leftOutCounts: `${prefix}:left-out:counts`,
    schemaConfigAsking: `${prefix}:schema-config:asking`,
    sources: `${prefix}:sources`,
    clocksAhead: `${prefix}:sources:ahead`,
    changesLost: `${prefix}:sources:lost`,
    arrivals: `${prefix}:arrivals`,
    heartbeats: `${prefix}:heartbeats`,
    outcomes: `${prefix}:outcomes:`,
    durations: `${prefix}:durations:`,
    retried: `${prefix}:retried`,
    request: (hash) => `${prefix}:request:${hash}`,
    thinEvents: `${prefix}:thin-events`,
    keyring: `${prefix}:keyring`,
    keptFields: `${prefix}:kept-fields`,
    pulls: `${prefix}:pulls`,
    pullOwner: (crm) => `${prefix}:pulls:owner:${crm}`,
    pulledIds: (crm, object) => `${prefix}:pulls:ids:${crm}:${object}`,
    crmChecks: `${prefix}:crm-checks`,
    crmChecking: `${prefix}:crm-checks:checking`,
    resealing: `${prefix}:keyring:resealing`,
    resealed: `${prefix}:keyring:resealed`,
    auditActs: `${prefix}:audit:acts`,
    auditOwner: `${prefix}:audit:owner`,
    auditHeads: `${prefix}:audit:heads`,
    reconciliation: `${prefix}:reconciliation`,
    comparisons: `${prefix}:reconciliation:comparisons`,
    plan: (id) => `${prefix}:reconciliation:plan:${id}`,
    feedingPlan: `${prefix}:reconciliation:feeding`,
    unfinishedPlans: `${prefix}:reconciliation:unfinished`,
    planOwner: `${prefix}:reconciliation:owner`,
    endedSession: (id) => `${prefix}:console:ended:${id}`,
    bulkPause: `${prefix}:bulk:pause`,
    reconcileRun: `${prefix}:reconciliation:run`,
    reconcileSchedule: `${prefix}:reconciliation:schedule`,
    reconcileOwner: `${prefix}:reconciliation:run:owner`,
    reconcileFolders: `${prefix}:reconciliation:folders`,
    reconcileNewest: `${prefix}:reconciliation:newest`,
    history: (of, name) =>
      of === "crmCode"
        ? `${prefix}:history:c:${cut(digestOfRecord(name))}`
        : `${prefix}:history:s:${cut(digestOf(name))}`,
    historyCodes: (subject) => `${prefix}:history:codes:${cut(digestOf(subject))}`,
    historySince: `${prefix}:history:since`,
    notify: `${prefix}:notify`,
    notifyQueue: `${prefix}:notify:queue`,
    notifyTry: `${prefix}:notify:try`,
    notifyLook: `${prefix}:notify:look`,
    bulkCancelled: `${prefix}:bulk:cancelled`,
    jobsAdded: `${prefix}:jobs-added`,
  };
}

/** 22 characters of base64url are 132 bits: no two names get the same key. */
const cut = (digest: string): string => digest.slice(0, 22);
