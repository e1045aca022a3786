/**
 * Every Redis key that crmsync itself writes; BullMQ's own lie under `<prefix>:<queue>:` and the
 * quota's under `<prefix>:quota:`. All share the prefix's hash tag, so that one tenant lies in
 * one slot of a Redis Cluster and scripts may touch several of them.
 */
import type { Lane } from "../sync/lane.ts";

export interface Keys {
  /** Hash: the newest state of one record that waits for its turn (fields: see staged-state.ts). */
  staged(crmCode: string): string;
  /** Counter: one number for every staged state, never used twice. */
  readonly versions: string;
  /** Hash crmCode → row: what was last proved to be on the service. */
  readonly ledger: string;
  /** Hash: how far the ledger's warm-up got; `state` is `done` once absence can be trusted. */
  readonly warmUp: string;
  /** Set while one process warms the ledger. */
  readonly warmUpOwner: string;
  /** Set while the ledger needs no sweeping. */
  readonly ledgerSwept: string;
  /** Sorted set crmCode → time of its first unsynced event, ms. */
  unsynced(lane: Lane): string;
  /** Set of event keys seen on one day (days since the epoch); expires as a whole. */
  seen(day: number): string;
  /** Hash id → dead letter. */
  readonly deadLetters: string;
  /** Hash: doors that the service has closed (token, address), since when, and next probe. */
  readonly denial: string;
  /** Hash: failures in a row, and until when the service is left alone (see outage.ts). */
  readonly outage: string;
  /** Hash: the tenant's value lists as the service last told them, and when. */
  readonly schemaConfig: string;
  /** Set while one process asks for them. */
  readonly schemaConfigAsking: string;
  /** Hash event source → time of its newest event, ms. */
  readonly sources: string;
  /** Hash process id → what it last told of itself, as JSON. */
  readonly heartbeats: string;
  /** Hash outcome → how many changes ended so in one slice of time. */
  outcomes(slice: number): string;
  /** Set for a while: this signed request was taken, and a copy of it is refused. */
  request(hash: string): string;
  /** Hash `<CRM>|<subject>` → newest event of a record that is to be fetched. */
  readonly thinEvents: string;
  /** Channel: told when a pointer job was added. */
  readonly jobsAdded: string;
}

export function keysOf(prefix: string): Keys {
  return {
    staged: (crmCode) => `${prefix}:staged:${crmCode}`,
    versions: `${prefix}:versions`,
    ledger: `${prefix}:ledger`,
    warmUp: `${prefix}:warm-up`,
    warmUpOwner: `${prefix}:warm-up:owner`,
    ledgerSwept: `${prefix}:ledger:swept`,
    unsynced: (lane) => `${prefix}:unsynced:${lane}`,
    seen: (day) => `${prefix}:seen:${day}`,
    deadLetters: `${prefix}:dead`,
    denial: `${prefix}:doors`,
    outage: `${prefix}:outage`,
    schemaConfig: `${prefix}:schema-config`,
    schemaConfigAsking: `${prefix}:schema-config:asking`,
    sources: `${prefix}:sources`,
    heartbeats: `${prefix}:processes`,
    outcomes: (slice) => `${prefix}:outcomes:${slice}`,
    request: (hash) => `${prefix}:request:${hash}`,
    thinEvents: `${prefix}:thin`,
    jobsAdded: `${prefix}:wake`,
  };
}
