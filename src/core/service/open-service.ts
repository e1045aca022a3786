/** The one assembly of quota and client: everything that sends requests to the service uses it. */
import type { Redis } from "ioredis";
import { proxyOf, quotaLimits, type Config } from "../../base/config.ts";
import { createQuota, type Quota, type QuotaOptions } from "../quota/quota.ts";
import { createServiceClient, type ServiceClient, type ServiceClientOptions } from "./client.ts";

export interface OpenService {
  readonly quota: Quota;
  readonly client: ServiceClient;
  /** Requests under way end as `unavailable`; spent permits stay counted in Redis. */
  close(): Promise<void>;
}

export interface ServiceAddress {
  /** Without the version prefix. */
  readonly baseUrl: string;
  /** The token in force; asked before every request. */
  readonly token: () => string;
}

/** Observes requests and pauses, for metrics and the log. */
export interface ServiceObserver {
  readonly onExchange?: ServiceClientOptions["onExchange"];
  readonly onThrottled?: QuotaOptions["onThrottled"];
  readonly log?: QuotaOptions["log"];
}

export interface ServiceOptions extends ServiceObserver {
  /** A daemon's limits hold for all processes; a command may have been given others. */
  readonly setsLimits?: true;
  /** See ServiceClientOptions. */
  readonly admits?: ServiceClientOptions["admits"];
}

/** Connections beside those for changes: for the list, the value lists, probes and checks. */
const OTHER_CONNECTIONS = 10;

/** @param redis only its options are used: the quota opens connections of its own. */
export function openService(
  config: Config,
  redis: Redis,
  { baseUrl, token }: ServiceAddress,
  { setsLimits, admits, onExchange, onThrottled, log }: ServiceOptions = {},
): OpenService {
  const quota = createQuota({
    ...quotaLimits(config),
    redis,
    setsLimits: setsLimits === true,
    ...(log && { log }),
    ...(onThrottled && { onThrottled }),
  });
  const client = createServiceClient({
    baseUrl,
    token,
    timeoutMs: config.SERVICE_TIMEOUT_MS,
    // A permit that waits for a connection gets too old to be spent.
    connections: config.SYNC_CONCURRENCY + OTHER_CONNECTIONS,
    proxy: proxyOf(config),
    ...(admits && { admits }),
    ...(onExchange && { onExchange }),
  });
  return {
    quota,
    client,
    async close() {
      await client.close();
      await quota.disconnect();
    },
  };
}
