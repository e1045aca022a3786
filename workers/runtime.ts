/** What all roles of one daemon share: the stores, metrics, log, tracing and the mapping. */
import type { Redis } from "ioredis";
import type { AuditTrail } from "../src/audit/trail.ts";
import type { Config } from "../src/config.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import { redisTarget } from "../src/ops/connect-redis.ts";
import { createRareLog, type Logger, type RareLog } from "../src/ops/log.ts";
import { createMetrics, type Metrics } from "../src/status/metrics.ts";
import { openRedis, openWorkRedis, type RedisTarget } from "../src/ops/open-redis.ts";
import { NO_TRACING, type Tracing } from "../src/ops/tracing.ts";
import { IdentityProvider } from "../src/people/identity-provider.ts";
import { JobNotifier } from "../src/state/line.ts";
import { readingsInTime, REDIS_DEADLINE_MS } from "../src/status/readings.ts";
import { createScrape, type Scrape } from "../src/status/gauges.ts";
import { openStores, type Stores } from "../src/status/stores.ts";
import { createTrail } from "./audit-trail.ts";
import { IntakeClient } from "./intake-client.ts";
import { hashOf } from "../src/ops/log-names.ts";
import { Guards } from "./poll.ts";
import { TenantOfToken } from "./tenant-of-token.ts";

/** The same event is logged at most once in this time, ms. */
const LOG_EVERY_MS = 10_000;

/** Retries for the same reason are logged at most once in this time, ms. */
const LOG_RETRIES_EVERY_MS = 60_000;

export interface Runtime extends Stores {
  readonly version: string;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly scrape: Scrape;
  readonly tracing: Tracing;
  /** For lines that may come very often: logs one of each event in ten seconds. */
  readonly rarely: RareLog;
  /** For retries: logs one line for each reason in a minute. */
  readonly retryLog: RareLog;
  readonly mapping: Mapping;
  readonly intakeClient: IntakeClient;
  /** Where this process records changes; undefined without AUDIT_LOG. */
  readonly trail: AuditTrail | undefined;
  readonly jobNotifier: JobNotifier;
  /** Where people sign in to the console; undefined while none is configured. */
  readonly provider: IdentityProvider | undefined;
  readonly guards: Guards;
  readonly tenant: TenantOfToken;
  /** For status and metrics: it fails in time, and waits for nothing that the workers have sent. */
  readonly statusRedis: Redis;
  /** How log lines name a record: by a hash, unless LOG_CRM_CODES is set. */
  readonly recordName: (crmCode: string | undefined) => string | undefined;
}

export interface RuntimeOptions {
  readonly config: Config;
  readonly redisUrl: string;
  readonly version: string;
  readonly log: Logger;
  /** Closed with the runtime. */
  readonly mapping: Mapping;
  readonly tracing?: Tracing;
}

export function createRuntime(options: RuntimeOptions): Runtime {
  const { config, redisUrl, version, log, mapping, tracing = NO_TRACING } = options;
  const target = redisTarget(config, redisUrl);
  const rarely = createRareLog(log, LOG_EVERY_MS);
  const onError = (error: Error) => rarely.warn({ err: error }, "redis.unreachable");
  const subscriber = connect(target, onError);
  const stores = openStores(config, connect(target, onError), tracing);
  const { keys, sealing } = stores;
  const statusRedis = connectForStatus(target, onError);
  const provider = openProvider(config, log);
  const metrics = createMetrics(tracing.spanIds);
  const intakeClient = new IntakeClient({
    target,
    keys,
    sealing,
    tracing,
    onError,
    onReplicaLate: () => rarely.warn({}, "redis.replica_late"),
  });
  return {
    ...stores,
    version,
    log,
    rarely,
    retryLog: createRareLog(log, LOG_RETRIES_EVERY_MS),
    tracing,
    metrics,
    scrape: createScrape(metrics, version, () =>
      readingsInTime(stores, statusRedis, (error) =>
        rarely.warn({ err: error }, "status.unreadable"),
      ),
    ),
    mapping,
    intakeClient,
    trail: createTrail(stores, log, metrics),
    jobNotifier: new JobNotifier(subscriber, keys),
    provider,
    guards: new Guards(),
    tenant: new TenantOfToken(),
    statusRedis,
    recordName: (crmCode) =>
      crmCode === undefined || config.LOG_CRM_CODES === "1" ? crmCode : hashOf(crmCode),
    async close() {
      await mapping.close();
      await intakeClient.close();
      await provider?.close();
      subscriber.disconnect();
      statusRedis.disconnect();
      await stores.close();
    },
  };
}

function openProvider(config: Config, log: Logger): IdentityProvider | undefined {
  const secret = config.secrets.OIDC_CLIENT_SECRET;
  const onChange = (why: string | undefined) =>
    why === undefined
      ? log.info({}, "console.provider_usable_again")
      : log.warn({ why }, "console.provider_unusable");
  return secret && new IdentityProvider(config, () => secret.value(), onChange);
}

/** A client that waits for Redis without a limit, as workers need it. */
function connect(target: RedisTarget, onError: (error: Error) => void): Redis {
  const redis = openWorkRedis(target);
  redis.on("error", onError);
  return redis;
}

function connectForStatus(target: RedisTarget, onError: (error: Error) => void): Redis {
  const redis = openRedis(target, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: REDIS_DEADLINE_MS,
  });
  redis.on("error", onError);
  return redis;
}
