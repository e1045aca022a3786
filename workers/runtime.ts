/** What every role of the daemon shares: connections, state, metrics, log. */
import { Redis } from "ioredis";
import type { Config } from "../src/config.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import { createThrottle, type Logger } from "../src/ops/log.ts";
import { createMetrics, type Metrics } from "../src/ops/metrics.ts";
import { NO_TRACING, type Tracing } from "../src/ops/tracing.ts";
import { JobNotifier } from "../src/state/job-notifier.ts";
import { IntakeClient } from "./intake-client.ts";
import { hashed } from "./log-names.ts";
import { readSharedState } from "../src/status/readings.ts";
import { openStores, type Stores } from "../src/status/stores.ts";

/** The same trouble is logged at most once in this time, ms. */
const LOG_EVERY_MS = 10_000;

export interface Runtime extends Stores {
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly throttle: ReturnType<typeof createThrottle>;
  readonly mapping: Mapping;
  readonly intakeClient: IntakeClient;
  readonly jobNotifier: JobNotifier;
  /** How a record is named in the log: a crmCode tells who somebody is. */
  logName(crmCode: string | undefined): string | undefined;
  close(): Promise<void>;
}

/** A client that waits for Redis for as long as it takes; what workers need. */
function connect(url: string, onError: (error: Error) => void): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  redis.on("error", onError);
  return redis;
}

export function createRuntime(
  config: Config,
  redisUrl: string,
  version: string,
  log: Logger,
  mapping: Mapping,
  tracing: Tracing = NO_TRACING,
): Runtime {
  const throttle = createThrottle(LOG_EVERY_MS);
  const onError = (error: Error) =>
    throttle("redis", (held) => log.warn({ err: error, held }, "redis.unreachable"));
  const redis = connect(redisUrl, onError);
  const subscriber = connect(redisUrl, onError);
  const stored = openStores(config, redis, tracing);
  const { keys, encryption } = stored;
  const runtime: Runtime = {
    ...stored,
    log,
    throttle,
    tracing,
    metrics: createMetrics(version, () => readSharedState(stored)),
    intakeClient: new IntakeClient(
      redisUrl,
      config.QUEUE_PREFIX,
      keys,
      encryption,
      onError,
      tracing,
    ),
    mapping,
    jobNotifier: new JobNotifier(subscriber, keys),
    logName: (crmCode) =>
      crmCode === undefined || config.LOG_CRM_CODES === "1" ? crmCode : hashed(crmCode),
    async close() {
      await mapping.close();
      await runtime.intakeClient.close();
      await stored.inbox.close();
      await stored.pointers.close();
      await stored.thinEvents.close();
      subscriber.disconnect();
      redis.disconnect();
    },
  };
  return runtime;
}
