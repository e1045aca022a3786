/** All that lies in Redis, for the daemon and for commands that look at it from outside. */
import type { Redis } from "ioredis";
import type { Config } from "../config.ts";
import { Inbox } from "../event/inbox.ts";
import { NO_TRACING, type Tracing } from "../ops/tracing.ts";
import { createDemand, type Demand } from "../quota/demand.ts";
import { createQuotaReader, type QuotaState } from "../quota/quota.ts";
import { DeadLetters } from "../state/dead-letters.ts";
import { ServiceDenial } from "../state/denial.ts";
import { keysOf, type Keys } from "../state/keys.ts";
import { Ledger } from "../state/ledger.ts";
import { Outage } from "../state/outage.ts";
import { Outcomes } from "../state/outcomes.ts";
import { PointerQueue } from "../state/pointer-queue.ts";
import { Heartbeats } from "../state/heartbeats.ts";
import { createEncryption, type Encryption } from "../state/encryption.ts";
import { Sources } from "../state/sources.ts";
import { StagedStates } from "../state/staged-state.ts";
import { StoredTenantLists } from "../state/tenant-lists.ts";
import { ThinEvents } from "../state/thin-events.ts";

/** A closed door is knocked on at most this often: twelve times an hour window. */
const PROBES_PER_HOUR = 12;

export interface Stores {
  readonly config: Config;
  readonly redis: Redis;
  readonly keys: Keys;
  readonly encryption: Encryption;
  readonly inbox: Inbox;
  readonly staged: StagedStates;
  readonly pointers: PointerQueue;
  readonly thinEvents: ThinEvents;
  readonly ledger: Ledger;
  readonly deadLetters: DeadLetters;
  readonly denial: ServiceDenial;
  readonly outage: Outage;
  readonly sources: Sources;
  readonly tenantLists: StoredTenantLists;
  readonly heartbeats: Heartbeats;
  readonly outcomes: Outcomes;
  /** Counts what is coming, and says who of those that wait goes first. */
  readonly demand: Demand;
  /** How the quota stands, for processes that spend of it and others alike. */
  readonly quotaState: () => Promise<QuotaState>;
}

/** The quota's own words for what the configuration says. */
export function quotaOptions(config: Config) {
  return {
    prefix: config.QUEUE_PREFIX,
    perHour: config.QUOTA_PER_HOUR,
    hourMs: config.QUOTA_HOUR_MS,
    burst: config.QUOTA_BURST,
    burstMs: config.QUOTA_BURST_MS,
    pacing: config.QUOTA_PACING,
    liveReserve: config.QUOTA_LIVE_RESERVE,
  };
}

/** @param redis stays the caller's to close, after `inbox` and `pointers`. */
export function openStores(config: Config, redis: Redis, tracing: Tracing = NO_TRACING): Stores {
  const prefix = config.QUEUE_PREFIX;
  const keys = keysOf(prefix);
  const encryption = createEncryption(config.stateKey);
  return {
    config,
    redis,
    keys,
    encryption,
    inbox: new Inbox(redis, prefix, tracing.bullmq),
    staged: new StagedStates(redis, keys, encryption),
    pointers: new PointerQueue(redis, prefix, keys, tracing.bullmq),
    thinEvents: new ThinEvents(redis, prefix, keys, tracing.bullmq),
    ledger: new Ledger(redis, keys),
    deadLetters: new DeadLetters(redis, keys, encryption),
    denial: new ServiceDenial(redis, keys, config.QUOTA_HOUR_MS / PROBES_PER_HOUR),
    outage: new Outage(redis, keys),
    sources: new Sources(redis, keys),
    tenantLists: new StoredTenantLists(redis, keys),
    heartbeats: new Heartbeats(redis, keys),
    outcomes: new Outcomes(redis, keys, config.QUOTA_HOUR_MS),
    demand: createDemand(redis, { prefix, hourMs: config.QUOTA_HOUR_MS }),
    quotaState: createQuotaReader(redis, quotaOptions(config)),
  };
}
