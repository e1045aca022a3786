/**
 * Every Redis key that crmsync itself writes, except the quota's under `<prefix>:quota:`
 * (src/core/quota/sliding-log.ts). BullMQ's keys are under `<prefix>:<queue>:`. All share the hash tag of the
 * prefix, so one tenant is in one hash slot of a Redis Cluster and a script may use several keys.
 */
import type { Lane } from "../event/lane.ts";
import { hash } from "node:crypto";

/** SHA-256 in base64url: a crmCode or a subject cannot be read from it. */
export const digestOf = (name: string): string => hash("sha256", name, "base64url");

export type Keys = ReturnType<typeof keysOf>;

export const keysOf = (prefix: string) =>
  ({
    /** Hash of the newest change of one record: `state` (`Change` in sync/record.ts), `place` (record-store.ts), as JSON; `version`. */
    staged: (crmCode: string) => `${prefix}:staged:${crmCode}`,
    /** Sorted set crmCode → its place by age, ms: what may be sent; one line for each lane. */
    line: (lane: Lane) => `${prefix}:line:${lane}`,
    /** Sorted set crmCode → when it comes back to its line, ms: a retry, the end of a worker's hold, a read to confirm. */
    later: `${prefix}:line:later`,
    /** Hash crmCode → since when its change is gone from Redis, or a late write may have replaced it, ms; until it is staged again. */
    lost: `${prefix}:lost`,
    /** Flag: a write was chosen to be read once more within the last hour. */
    spotCheck: `${prefix}:verify:chosen`,
    /** Hash: hash of a record of the CRM → the crmCode to which it led, where its own id does not say it. */
    subjects: `${prefix}:subjects`,
    /** Sorted set [older crmCode, newer one], as JSON → when a record of the CRM got the newer one, ms. */
    doubles: `${prefix}:doubles`,
    /** Set: objects of the CRMs, such as `contact`, of which an event was noted. */
    objects: `${prefix}:objects`,
    /** Counter: states that were staged without an event of the inbox, which counts its own. */
    stagedCount: `${prefix}:staged-count`,
    /** Counter: live changes in one slice of the hour (sync/slices.ts); expires. */
    flow: (slice: number) => `${prefix}:quota:flow:${slice}`,
    /** What records did after their first change, as JSON (sync/rank.ts). */
    firstChanges: `${prefix}:quota:first-changes`,
    /** Name of the service that the ledger is about (known-service.ts). */
    service: `${prefix}:service`,
    /** Set: names of the tokens that are known to be of the ledger's tenant. */
    serviceTokens: `${prefix}:service:tokens`,
    /** Hash crmCode → row: what was last proven to be on the service (record-store.ts), as JSON. */
    ledger: `${prefix}:ledger`,
    /**
     * Hash: how far the ledger's warm-up got; `state` is `done` when the ledger is warm, and `epoch` counts how
     * often the whole ledger was forgotten.
     */
    warmUp: `${prefix}:warm-up`,
    /** Row of a record whose traces were erased: only its orders; named by a hash. */
    erased: (crmCode: string) => `${prefix}:erased:${cut(digestOf(crmCode))}`,
    /** Hash: latest, the latest time that Redis told; stepMs and steppedAt, of the last step of its clock. */
    clock: `${prefix}:clock`,
    /**
     * Hash of one process, named by its random id: `ticks`, about one each second, and `settled`, its settled
     * changes. A lower number than before means that Redis has lost writes (state-age.ts).
     */
    age: (id: string) => `${prefix}:age:${id}`,
    /** Hash version: which programs may work on all of this (state-version.ts). */
    stateVersion: `${prefix}:state-version`,
    /** When Redis was found to have gone backwards, ms; expires. */
    wentBackwards: `${prefix}:went-backwards`,
    /** Set while one process warms the ledger. */
    warmUpOwner: `${prefix}:warm-up:owner`,
    /** Set until the next sweep of any process is due. */
    sweeping: `${prefix}:sweeping`,
    /** Set while the ledger needs no sweeping. */
    ledgerSwept: `${prefix}:ledger:swept`,
    /** How many rows of the ledger were of no active relation when it was swept last. */
    ledgerInactive: `${prefix}:ledger:inactive`,
    /** Sorted set crmCode → when its termination was sent last, ms; those of the last 24 hours count. */
    terminations: `${prefix}:terminations`,
    /** Sorted set crmCode → since when its termination is held for a person, ms. */
    heldTerminations: `${prefix}:terminations:held`,
    /** Sorted set of the updates of the last hour, by their time: which fields had a value, and which lost it. */
    fieldUpdates: `${prefix}:updates:fields`,
    /** Set for seven days once the event of this key (a hash) was accepted. */
    seen: (digest: string) => `${prefix}:seen:${cut(digest)}`,
    /** Hash id → dead letter, as JSON. */
    deadLetters: `${prefix}:dead-letters`,
    /** Hash id → what the letter knows of its record's events (`LetterMark` in sync/letter.ts), as JSON. */
    deadMarks: `${prefix}:dead-letters:marks`,
    /** Hash reason → number of dead letters; the scripts make this name from that of `deadLetters`. */
    deadReasons: `${prefix}:dead-letters:reasons`,
    /** Sorted set id → what `deadTime` had counted when the letter was stored, ms. */
    deadAges: `${prefix}:dead-letters:ages`,
    /** Hash: the time by which dead letters expire, as far as it was counted (lua/expire-dead-letters.lua). */
    deadTime: `${prefix}:dead-letters:time`,
    /** Hash with one field: cause of the denial → since when, and when the next probe is due. */
    denial: `${prefix}:denial`,
    /** After how many probes the last one ended; expires. */
    denialEnded: `${prefix}:denial:ended`,
    /** Hash with one field: the circuit breaker (src/core/sync/breaker.ts). */
    outage: `${prefix}:outage`,
    /** Set for one probe pause after a record was answered 403; `due` until one process probes. */
    probeAsked: `${prefix}:denial:probe`,
    /** Hash: the tenant's value lists as last fetched from the service, and when. */
    schemaConfig: `${prefix}:schema-config`,
    /** Set while one process fetches the value lists. */
    schemaConfigAsking: `${prefix}:schema-config:asking`,
    /** Hash event source → time of its newest event, ms. */
    sources: `${prefix}:sources`,
    /** Hash event source → since when it is known, and its longest pauses, as JSON (sources.ts). */
    sourcePauses: `${prefix}:sources:pauses`,
    /** Hash event source → by how much its clock was ahead, and when, as JSON. */
    clocksAhead: `${prefix}:sources:ahead`,
    /** Hash webhook → when it dated a change before 2000 last, ms; expires. */
    undated: `${prefix}:sources:undated`,
    /** Hash webhook → when its CRM reported last that it had lost changes, ms; expires. */
    changesLost: `${prefix}:sources:lost`,
    /** Sorted set time of arrival, ms → highest number of an event that arrived then. */
    arrivals: `${prefix}:arrivals`,
    /** Hash process id → its last heartbeat, as JSON. */
    heartbeats: `${prefix}:heartbeats`,
    /** Prefix; a slice's number follows. Hash name → count of all processes in 1/60 of an hour; expires. */
    outcomes: `${prefix}:outcomes:`,
    /** Prefix; a slice's number follows. Hash bucket → replies of the service in an hour; expires. */
    durations: `${prefix}:durations:`,
    /** Set for a while once the events of a signed request, or the changes that a CRM has lost, were stored. */
    request: (hash: string) => `${prefix}:request:${hash}`,
    /** Hash `<CRM>|<subject>` → newest thin event of a record that must be fetched, as JSON. */
    thinEvents: `${prefix}:thin-events`,
    /** Set of the subjects of records to which this part belongs; for a year. */
    owners: (crm: string, part: string) => `${prefix}:owners:${crm}|${part}`,
    /** The key of the ledger's fingerprints, sealed with the first key of STATE_KEY (keyring.ts). */
    keyring: `${prefix}:keyring`,
    /** The mapping's kept fields by variant, as JSON: what fingerprints leave out (kept-fields.ts). */
    keptFields: `${prefix}:kept-fields`,
    /** Hash CRM → where its pulls stand (pulls.ts), as JSON. */
    pulls: `${prefix}:pulls`,
    /** Set while one process pulls this CRM. */
    pullOwner: (crm: string) => `${prefix}:pulls:owner:${crm}`,
    /** Set of the ids that a CRM listed last, where it does not tell deletions; expires. */
    pulledIds: (crm: string, object: string) => `${prefix}:pulls:ids:${crm}:${object}`,
    /** Set of those that it lists now, until the list is complete. */
    pulledIdsNext: (crm: string, object: string) => `${prefix}:pulls:ids:${crm}:${object}:next`,
    /** What the last check of each CRM found (crm-checks.ts), as JSON. */
    crmChecks: `${prefix}:crm-checks`,
    /** Set while one process checks the CRMs. */
    crmChecking: `${prefix}:crm-checks:checking`,
    /** Set while one process seals everything again with the present key. */
    resealing: `${prefix}:keyring:resealing`,
    /** What the last pass of sealing again found, as JSON; absent when nothing was left to seal. */
    resealed: `${prefix}:keyring:resealed`,
    /** List of acts that have no line in an audit trail yet: `<ms> <JSON>`. */
    auditActs: `${prefix}:audit:acts`,
    /** Set while one process writes the lines of these acts. */
    auditOwner: `${prefix}:audit:owner`,
    /** Hash chain of an audit trail → its newest line, as JSON. */
    auditHeads: `${prefix}:audit:heads`,
    /** Hash: what stops sending or intake now, as JSON, by its name; `looked`, when that was looked at, ms. */
    interruptions: `${prefix}:audit:interruptions`,
    /** Set after one process has looked at it. */
    interruptionsLook: `${prefix}:audit:interruptions:look`,
    /** Hash: what the last reconciliation found (fields: reconciliations.ts). */
    reconciliation: `${prefix}:reconciliation`,
    /** Sorted set comparison, as JSON → when it ended, ms: the last ones; expires. */
    comparisons: `${prefix}:reconciliation:comparisons`,
    /** Hash crmCode → what differs by the last comparison of a kind of export, and since when (differences.ts); expires. */
    differences: (kind: string) => `${prefix}:reconciliation:differences:${kind}`,
    /** Hash kind of export → what its last comparison has found, as JSON. */
    comparedExports: `${prefix}:reconciliation:exports`,
    /** List: differences that have ended, as JSON, the newest first; expires. */
    endedDifferences: `${prefix}:reconciliation:ended`,
    /** Hash: how far a plan was carried out; expires. */
    plan: (id: string) => `${prefix}:reconciliation:plan:${id}`,
    /** Hash: the plan that was begun last and is not finished (fields: reconciliations.ts); expires. */
    feedingPlan: `${prefix}:reconciliation:feeding`,
    /** Hash id → how far each plan is that was begun and is not finished. */
    unfinishedPlans: `${prefix}:reconciliation:unfinished`,
    /** Set while one process carries out a plan. */
    planOwner: `${prefix}:reconciliation:owner`,
    /** Set after somebody has logged out of the console, for as long as the session's cookie would be valid. */
    endedSession: (id: string) => `${prefix}:console:ended:${id}`,
    /** When the identity provider has ended the sessions that it knows by this name, ms; for as long as one lasts. */
    endedAtProvider: (name: string) => `${prefix}:console:ended-at-provider:${name}`,
    /** Set once a sign-in came back, or a logout token was received, for as long as a copy of it could be used. */
    usedOnce: (name: string) => `${prefix}:console:used:${cut(digestOf(name))}`,
    /** Hash id → an act that waits for a second person, or did lately (approvals.ts), as JSON. */
    approvals: `${prefix}:approvals`,
    /** What one of them names: crmCodes or ids of dead letters, as JSON; until it has ended. */
    approvalItems: (id: string) => `${prefix}:approvals:items:${id}`,
    /** Which acts need a second person, and who holds which token, as JSON. */
    approvalRule: `${prefix}:approvals:rule`,
    /** Hash `approved` → the approval of the newest mapping, as JSON; `used` → hash of the mapping that was used last. */
    approvedMapping: `${prefix}:approvals:mapping`,
    /** Set while an operator has paused the lane bulk: since when, by whom and why, as JSON. */
    bulkPause: `${prefix}:bulk:pause`,
    /** Hash source → how the last reconciliation that a daemon began has ended, as JSON. */
    reconcileRun: `${prefix}:reconciliation:run`,
    /** Hash done, next: until when and from when scheduled reconciliations are due, ms. */
    reconcileSchedule: `${prefix}:reconciliation:schedule`,
    /** Set while one process reconciles by itself. */
    reconcileOwner: `${prefix}:reconciliation:run:owner`,
    /** Hash host → what it sees in RECONCILE_DIR, as JSON; expires. */
    reconcileFolders: `${prefix}:reconciliation:folders`,
    /** Sorted set hash of a kind of export → `asOf` of its newest export that was carried out, ms. */
    reconcileNewest: `${prefix}:reconciliation:newest`,
    /**
     * Steps of a record by its crmCode, or by its subject while no crmCode is known; expires. A first step
     * may lie in the staged hash.
     */
    history: (of: "crmCode" | "subject", name: string) =>
      `${prefix}:history:${of.charAt(0)}:${cut(digestOf(name))}`,
    /** crmCodes to which the record of a CRM led lately; expires with its history. */
    historyCodes: (subject: string) => `${prefix}:history:codes:${cut(digestOf(subject))}`,
    /** Since when histories are kept without a gap, ms. */
    historySince: `${prefix}:history:since`,
    /** Until when the runs of QUALITY_CRON are done, and the failure of the one that is due, as JSON. */
    qualitySchedule: `${prefix}:quality:schedule`,
    /** Set while one process sends what owners must correct. */
    qualityOwner: `${prefix}:quality:owner`,
    /** Set of what was sent in one run, by the way and the hash of the owner; expires. */
    qualitySent: (run: string) => `${prefix}:quality:sent:${cut(digestOf(run))}`,
    /** What has been notified, as JSON. */
    notify: `${prefix}:notify`,
    /** List: notifications that wait, as JSON; the oldest first. */
    notifyQueue: `${prefix}:notify:queue`,
    /** Hash: the tries of the oldest notification: of, its id; tries; due, ms; since and why, of the failure. */
    notifyTry: `${prefix}:notify:try`,
    /** Set after one process has looked for what is to be notified. */
    notifyLook: `${prefix}:notify:look`,
    /** Hash id of a record's dead letter → its latest outcome that is to be told, as JSON; `-<id>` → when a rejection ended. */
    toldWaiting: `${prefix}:told`,
    /** Hash: those of them that were set apart, to become messages. */
    toldSending: `${prefix}:told:sending`,
    /** List: the message with outcomes that is sent next, as JSON. */
    toldQueue: `${prefix}:told:queue`,
    /** Hash: the tries of that message; fields as of `notifyTry`; expires. */
    toldTry: `${prefix}:told:try`,
    /** Set after one process has made a message of outcomes. */
    toldGather: `${prefix}:told:gather`,
    /** Counter: outcomes that were left out; expires. */
    toldLeftOut: `${prefix}:told:left-out`,
    /** Counter: bulk changes that an operator has dropped and that no process has counted yet. */
    bulkCancelled: `${prefix}:bulk:cancelled`,
    /** Channel: the lane that has got work; `paused` when the lane bulk was paused (line.ts). */
    jobsAdded: `${prefix}:jobs-added`,
  }) as const;

/** 22 characters of base64url are 132 bits: no two names get the same key. */
const cut = (digest: string): string => digest.slice(0, 22);
