/** All that lies in Redis, for the daemon and for commands that look at it from outside. */
import type { Redis } from "ioredis";
import type { Config } from "../src/config.ts";
import { Inbox } from "../src/event/inbox.ts";
import { NO_TRACING, type Tracing } from "../src/ops/tracing.ts";
import { createDemand, type Demand } from "../src/service/demand.ts";
import { createQuotaReader, type QuotaState } from "../src/service/quota.ts";
import { DeadLetters } from "../src/state/dead-letters.ts";
import { Doors } from "../src/state/doors.ts";
import { keysOf, type Keys } from "../src/state/keys.ts";
import { Ledger } from "../src/state/ledger.ts";
import { Outage } from "../src/state/outage.ts";
import { Outcomes } from "../src/state/outcomes.ts";
import { PointerQueue } from "../src/state/pointer-queue.ts";
import { Processes } from "../src/state/processes.ts";
import { createSeal, type Seal } from "../src/state/seal.ts";
import { Sources } from "../src/state/sources.ts";
import { StagedStates } from "../src/state/staged-state.ts";
import { StoredTenantLists } from "../src/state/tenant-lists.ts";
import { ThinEvents } from "../src/state/thin-events.ts";

/** A closed door is knocked on at most this often: twelve times an hour window. */
const PROBES_PER_HOUR = 12;

export interface StoredState {
  readonly config: Config;
  readonly redis: Redis;
  readonly keys: Keys;
  readonly seal: Seal;
  readonly inbox: Inbox;
  readonly staged: StagedStates;
  readonly pointers: PointerQueue;
  readonly thin: ThinEvents;
  readonly ledger: Ledger;
  readonly dead: DeadLetters;
  readonly doors: Doors;
  readonly outage: Outage;
  readonly sources: Sources;
  readonly tenantLists: StoredTenantLists;
  readonly processes: Processes;
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
export function openStoredState(
  config: Config,
  redis: Redis,
  tracing: Tracing = NO_TRACING,
): StoredState {
  const prefix = config.QUEUE_PREFIX;
  const keys = keysOf(prefix);
  const seal = createSeal(config.stateKey);
  return {
    config,
    redis,
    keys,
    seal,
    inbox: new Inbox(redis, prefix, tracing.bullmq),
    staged: new StagedStates(redis, keys, seal),
    pointers: new PointerQueue(redis, prefix, keys, tracing.bullmq),
    thin: new ThinEvents(redis, prefix, keys, tracing.bullmq),
    ledger: new Ledger(redis, keys),
    dead: new DeadLetters(redis, keys, seal),
    doors: new Doors(redis, keys, config.QUOTA_HOUR_MS / PROBES_PER_HOUR),
    outage: new Outage(redis, keys),
    sources: new Sources(redis, keys),
    tenantLists: new StoredTenantLists(redis, keys),
    processes: new Processes(redis, keys),
    outcomes: new Outcomes(redis, keys, config.QUOTA_HOUR_MS),
    demand: createDemand(redis, { prefix, hourMs: config.QUOTA_HOUR_MS }),
    quotaState: createQuotaReader(redis, quotaOptions(config)),
  };
}
