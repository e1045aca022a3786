/** What every role of the daemon shares: connections, state, metrics, log. */
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import type { Config } from "../src/config.ts";
import { Inbox } from "../src/event/inbox.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import { createThrottle, type Logger } from "../src/ops/log.ts";
import { createMetrics, type Metrics } from "../src/ops/metrics.ts";
import { createDemand, type Demand } from "../src/service/demand.ts";
import { createQuotaReader, type QuotaState } from "../src/service/quota.ts";
import { DeadLetters } from "../src/state/dead-letters.ts";
import { Doors } from "../src/state/doors.ts";
import { keysOf, type Keys } from "../src/state/keys.ts";
import { Ledger } from "../src/state/ledger.ts";
import { Outage } from "../src/state/outage.ts";
import { PointerQueue } from "../src/state/pointer-queue.ts";
import { createSeal } from "../src/state/seal.ts";
import { Sources } from "../src/state/sources.ts";
import { StagedStates } from "../src/state/staged-state.ts";
import { StoredTenantLists } from "../src/state/tenant-lists.ts";
import { Wake } from "../src/state/wake.ts";
import { Ingest } from "./ingest.ts";
import { readSharedState } from "./shared-state.ts";

/** The same trouble is logged at most once in this time, ms. */
const LOG_EVERY_MS = 10_000;

/** A closed door is knocked on at most this often: twelve times an hour window. */
const PROBES_PER_HOUR = 12;

export interface Runtime {
  readonly config: Config;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly throttle: ReturnType<typeof createThrottle>;
  readonly redis: Redis;
  readonly keys: Keys;
  readonly mapping: Mapping;
  readonly inbox: Inbox;
  readonly ingest: Ingest;
  readonly staged: StagedStates;
  readonly pointers: PointerQueue;
  readonly ledger: Ledger;
  readonly dead: DeadLetters;
  readonly doors: Doors;
  readonly outage: Outage;
  readonly sources: Sources;
  readonly tenantLists: StoredTenantLists;
  readonly wake: Wake;
  /** Counts what is coming, and says who of those that wait goes first. */
  readonly demand: Demand;
  /** How the quota stands, for processes that spend of it and others alike. */
  readonly quotaState: () => Promise<QuotaState>;
  /** How a record is named in the log: a crmCode tells who somebody is. */
  logName(crmCode: string | undefined): string | undefined;
  close(): Promise<void>;
}

/** A client that waits for Redis for as long as it takes; what workers need. */
export function connect(url: string, onError: (error: Error) => void): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on("error", onError);
  return redis;
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

export function createRuntime(
  config: Config,
  redisUrl: string,
  version: string,
  log: Logger,
  mapping: Mapping,
): Runtime {
  const throttle = createThrottle(LOG_EVERY_MS);
  const onError = (error: Error) =>
    throttle("redis", (held) => log.warn({ err: error, held }, "redis.unreachable"));
  const redis = connect(redisUrl, onError);
  const subscriber = connect(redisUrl, onError);
  const prefix = config.QUEUE_PREFIX;
  const keys = keysOf(prefix);
  const seal = createSeal(config.stateKey);
  const inbox = new Inbox(redis, prefix);
  const pointers = new PointerQueue(redis, prefix, keys);
  const runtime: Runtime = {
    config,
    log,
    throttle,
    redis,
    keys,
    inbox,
    pointers,
    metrics: createMetrics(version, () => readSharedState(runtime)),
    ingest: new Ingest(redisUrl, prefix, keys, seal, onError),
    mapping,
    staged: new StagedStates(redis, keys, seal),
    ledger: new Ledger(redis, keys),
    dead: new DeadLetters(redis, keys, seal),
    doors: new Doors(redis, keys, config.QUOTA_HOUR_MS / PROBES_PER_HOUR),
    outage: new Outage(redis, keys),
    sources: new Sources(redis, keys),
    tenantLists: new StoredTenantLists(redis, keys),
    wake: new Wake(subscriber, keys),
    demand: createDemand(redis, { prefix, hourMs: config.QUOTA_HOUR_MS }),
    quotaState: createQuotaReader(redis, quotaOptions(config)),
    logName: (crmCode) =>
      crmCode === undefined
        ? undefined
        : createHash("sha256").update(crmCode).digest("hex").slice(0, 12),
    async close() {
      await mapping.close();
      await runtime.ingest.close();
      await inbox.close();
      await pointers.close();
      subscriber.disconnect();
      redis.disconnect();
    },
  };
  return runtime;
}
