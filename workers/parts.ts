/**
 * Opens the parts of one daemon, once: the stores, metrics, log, tracing and the mapping. No worker gets them whole:
 * each names what it uses (`Uses`), and test/unit/architecture.test.ts holds that.
 */
import type { Redis } from "ioredis";
import type { Config } from "../src/base/config.ts";
import type { Mapping } from "../src/intake/mapping/mapping.ts";
import { redisTarget } from "../src/base/connect-redis.ts";
import { createRareLog, type Logger } from "../src/base/log.ts";
import { createMetrics } from "../src/operate/status/metrics.ts";
import { openRedis, openWorkRedis, type RedisTarget } from "../src/base/open-redis.ts";
import { NO_TRACING, type Tracing } from "../src/base/tracing.ts";
import { IdentityProvider } from "../src/base/identity-provider.ts";
import { JobNotifier } from "../src/core/state/line.ts";
import { storyOf } from "../src/people/history/story.ts";
import {
  readingsInTime,
  readingsOfPrimary,
  REDIS_DEADLINE_MS,
} from "../src/operate/status/readings.ts";
import { createScrape } from "../src/operate/status/gauges.ts";
import { openStores } from "../src/operate/status/stores.ts";
import { createTrail } from "./audit-trail.ts";
import { IntakeClient } from "./intake-client.ts";
import { hashOf } from "../src/base/log-names.ts";
import { Guards } from "./chores.ts";
import { MappingGate } from "./mapping-gate.ts";
import { TenantOfToken } from "./tenant-of-token.ts";

/** The same event is logged at most once in this time, ms. */
const LOG_EVERY_MS = 10_000;

/** Retries for the same reason are logged at most once in this time, ms. */
const LOG_RETRIES_EVERY_MS = 60_000;

export interface PartsOptions {
  readonly config: Config;
  readonly redisUrl: string;
  readonly version: string;
  readonly log: Logger;
  /** Closed with the parts. */
  readonly mapping: Mapping;
  readonly tracing?: Tracing;
}

export type Parts = ReturnType<typeof openParts>;

/** What a worker uses of the parts. */
export type Uses<Names extends keyof Parts> = Pick<Parts, Names>;

export function openParts(options: PartsOptions) {
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
    /** For lines that may come very often: logs one of each event in ten seconds. */
    rarely,
    /** For retries: logs one line for each reason in a minute. */
    retryLog: createRareLog(log, LOG_RETRIES_EVERY_MS),
    tracing,
    metrics,
    scrape: createScrape(metrics, version, () =>
      readingsInTime(stores, statusRedis, (error) =>
        rarely.warn({ err: error }, "status.unreadable"),
      ),
    ),
    mapping,
    mappingGate: new MappingGate({ ...stores, log, mapping }),
    intakeClient,
    /** Where this process records changes; undefined without AUDIT_LOG. */
    trail: createTrail(stores, log, () => metrics.auditLines.inc()),
    jobNotifier: new JobNotifier(subscriber, keys),
    /** Where people sign in to the console; undefined while none is configured. */
    provider,
    guards: new Guards(),
    tenant: new TenantOfToken(),
    /** Fails in time, and waits for nothing that the workers have sent. */
    statusRedis,
    /** All shared state, as status, metrics, the console and notifications show it. */
    readings: () => readingsOfPrimary(stores, statusRedis),
    /** What became of one record. */
    story: (name: string) => storyOf(stores, name, mapping),
    /** For what needs nearly all of them: the console. */
    stores,
    /** How log lines name a record: by a hash, unless LOG_CRM_CODES is set. */
    recordName: (crmCode: string | undefined): string | undefined =>
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
