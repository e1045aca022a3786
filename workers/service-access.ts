/**
 * The daemon's one way to the service: quota, client and doors together.
 */
import { createServiceClient, type ServiceClient } from "../src/service/client.ts";
import type { Permit } from "../src/quota/permit.ts";
import { createQuota, type Quota } from "../src/quota/quota.ts";
import type { CreateReply, Denied, GetReply, UpdateReply } from "../src/service/reply.ts";
import type { Sendable } from "../src/sync/sync-relation.ts";
import type { ServiceReply } from "../src/sync/service-reply.ts";
import { startProbing } from "./probe.ts";
import type { Runtime } from "./runtime.ts";
import { quotaOptions } from "../src/status/stores.ts";
import { keepLedgerWarm } from "./warm-up.ts";

export interface ServiceAddress {
  /** Without the version prefix. */
  readonly baseUrl: string;
  token(): string;
}

export interface ServiceAccess {
  readonly quota: Quota;
  readonly client: ServiceClient;
  /** Whether the service has closed a door to us, so that only probes may be sent. */
  isDenied(): Promise<boolean>;
  /** Whether changes may be sent: not refused, and known what the service holds already. */
  isReady(): Promise<boolean>;
  /** Likewise, and there is no outage, or this is its one try. */
  mayTry(): Promise<boolean>;
  /** Spends the permit on the request that a decision needs. */
  send(permit: Permit, decision: Sendable, crmCode: string): Promise<ServiceReply>;
  /** Remembers that the service refused us; all processes stop. */
  denied(reply: Denied): Promise<void>;
  close(): Promise<void>;
}

export function openServiceAccess(runtime: Runtime, address: ServiceAddress): ServiceAccess {
  const { config, log, metrics, denial, outage } = runtime;
  const stop = new AbortController();
  const client = createServiceClient({
    baseUrl: address.baseUrl,
    token: () => address.token(),
    timeoutMs: config.SERVICE_TIMEOUT_MS,
    proxy: {
      httpProxy: config.HTTP_PROXY,
      httpsProxy: config.HTTPS_PROXY,
      noProxy: config.NO_PROXY,
    },
    onExchange: ({ operation, method, status, durationMs }) => {
      metrics.requested(method, operation, status);
      metrics.requestDuration.observe({ method }, durationMs / 1000);
    },
  });
  const quota = createQuota({
    ...quotaOptions(config),
    redis: runtime.redis,
    log: {
      info: (fields, message) => log.info(fields, message),
      // A Redis that is away or full would be told of by each of its connections, each second.
      warn: (fields, message) =>
        runtime.throttle(message, (held) => log.warn({ ...fields, held }, message)),
    },
    onPause: (reason) => metrics.pauses.inc({ reason }),
  });
  async function failed(reason: string): Promise<void> {
    if (!(await outage.failed(reason))) return;
    metrics.pauses.inc({ reason: "unavailable" });
    log.error({ reason }, "service.unavailable");
  }

  /** What this process was refused with, for requests that were about to follow it. */
  let refusal: Denied | undefined;
  let closing = 0;
  const access: ServiceAccess = {
    quota,
    client,
    async isDenied() {
      const door = await denial.current();
      if (door === undefined && closing === 0) refusal = undefined;
      return door !== undefined;
    },
    async isReady() {
      if (await access.isDenied()) return false;
      const { state } = await runtime.ledger.warmUp();
      return state === "done" || state === "cold";
    },
    mayTry: async () => (await access.isReady()) && (await outage.waitMs()) === 0,
    async send(permit, decision, crmCode) {
      if (refusal !== undefined) return refusal;
      const reply = await sendDecision(client, permit, decision, crmCode);
      if (reply.kind === "denied") await access.denied(reply);
      else if (reply.kind === "unavailable") await failed(reply.reason);
      else if (await outage.answered()) log.info({}, "service.recovered");
      return reply;
    },
    async denied(reply) {
      refusal = reply;
      closing += 1;
      const detail = reply.ip ?? "";
      const wasOpen = await denial.begin(reply.cause, detail).finally(() => (closing -= 1));
      if (!wasOpen) return;
      metrics.pauses.inc({ reason: `${reply.cause}_denied` });
      log.error({ denied: reply.cause, address: detail || undefined }, "service.denied");
    },
    async close() {
      stop.abort();
      await Promise.allSettled([probing, warming]);
      await client.close();
      await quota.disconnect();
    },
  };
  const probing = startProbing(runtime, access, address, stop.signal);
  const warming = keepLedgerWarm(runtime, access, stop.signal);
  return access;
}

function sendDecision(
  client: ServiceClient,
  permit: Permit,
  decision: Sendable,
  crmCode: string,
): Promise<CreateReply | UpdateReply | GetReply> {
  switch (decision.kind) {
    case "create":
      return client.create(permit, decision.body);
    case "update":
      return client.update(permit, crmCode, decision.body);
    case "fetch":
      return client.get(permit, crmCode);
  }
}
