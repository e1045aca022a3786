/** The daemon's access to the service: quota and client, and whether requests may be sent now. */
import type { Permit } from "../src/quota/permit.ts";
import { CrmCodeError, type ServiceClient } from "../src/service/client.ts";
import { openService, type OpenService, type ServiceAddress } from "../src/service/open-service.ts";
import type { CreateReply, Denied, GetReply, UpdateReply } from "../src/service/reply.ts";
import type { NotedRequest } from "../src/sync/step.ts";
import type { ServiceReply } from "../src/sync/service-reply.ts";
import type { Sendable } from "../src/sync/decide.ts";
import type { Runtime } from "./runtime.ts";

export interface ServiceAccess extends OpenService {
  /** The token in force. */
  readonly token: () => string;
  /** Whether the service denies access: then only probes may be sent. */
  isDenied(): Promise<boolean>;
  /** Whether anything but probes may be sent: access is not denied, and the token is of the ledger's tenant. */
  mayAsk(): Promise<boolean>;
  /**
   * Whether changes may be sent: the service may be asked (`mayAsk`), the ledger is warm or known to be cold,
   * and the audit trail can be written.
   */
  isReady(): Promise<boolean>;
  /** Whether one change may be sent now: `isReady`, and no outage, or this is the outage's one try. */
  mayTry(): Promise<boolean>;
  /** Whether one change may be sent now, and no failure of the service is known. It claims no try of an outage. */
  isUntroubled(): Promise<boolean>;
  /** The records that should not be an outage's one try. */
  unfitForTry(): Promise<ReadonlySet<string>>;
  /** What was sent with this permit; undefined when nothing was. */
  requestOf(permit: Permit): NotedRequest | undefined;
  /** Spends the permit on the request that a decision needs. */
  send(permit: Permit, decision: Sendable, crmCode: string): Promise<ServiceReply>;
  /** Shares a denial: all processes stop sending. */
  denied(reply: Denied): Promise<void>;
}

export function openServiceAccess(runtime: Runtime, address: ServiceAddress): ServiceAccess {
  const { ledger, log, metrics, outage, rest, tenant, trail } = runtime;
  const requests = new WeakMap<Permit, NotedRequest>();
  const service = openObservedService(runtime, address, requests);
  const denials = trackDenials(runtime);

  async function isReady(): Promise<boolean> {
    if (trail?.isWritable === false) return false;
    // Before the ledger is read: it is forgotten here if Redis went back.
    await rest.checked();
    // Together, because Redis may be far away.
    const [isAllowed, { state }] = await Promise.all([mayAsk(), ledger.warmUp()]);
    return isAllowed && (state === "done" || state === "cold");
  }

  async function mayAsk(): Promise<boolean> {
    return tenant.isKnown(address.token()) && !(await denials.isDenied());
  }

  return {
    ...service,
    token: address.token,
    isDenied: denials.isDenied,
    mayAsk,
    isReady,
    mayTry: async () => (await isReady()) && (await outage.waitMs()) === 0,
    isUntroubled: async () =>
      (await Promise.all([isReady(), outage.isFree()])).every((isFine) => isFine),
    unfitForTry: () => outage.unfitForTry(),
    denied: denials.begin,
    requestOf: (permit) => requests.get(permit),

    async send(permit, decision, crmCode) {
      const denial = denials.met();
      if (denial !== undefined) return denial;
      const token = address.token();
      // The token has changed since the permit was asked for: the change is sent once
      // the new token was checked.
      if (!tenant.isKnown(token)) return { kind: "throttled" };
      const reply = await sendDecision(service.client, permit, decision, crmCode).catch(
        refusedCode,
      );
      if (reply.kind === "unavailable" && reply.reason === "forbidden") {
        await runtime.denial.askForProbe();
      }
      if (reply.kind === "denied") {
        // A 401 to a token that was replaced meanwhile says nothing about the one in force.
        if (reply.cause !== "token" || token === address.token()) await denials.begin(reply);
      } else if (reply.kind === "unavailable") {
        if (await outage.failed(reply.reason, crmCode)) {
          metrics.pauses.inc({ reason: "unavailable" });
          log.error({ reason: reply.reason }, "service.unavailable");
        }
      } else {
        const failed = await outage.succeeded();
        if (failed !== undefined) {
          log.info({}, "service.recovered");
          void retryNow(runtime, failed).catch(() => {
            // Their own retries remain. They come as late as the outage was long.
          });
        }
      }
      return reply;
    },
  };
}

/**
 * This many records are retried at once after another one's retry has succeeded: what the service refused
 * before, it may accept now. If at least one in four succeeds, all are soon retried.
 */
const RETRIED_AFTER_SUCCESS = 4;

/** To be called when a record that failed before was accepted: others that wait for a retry may be, too. */
export async function retryAfterSuccess(runtime: Runtime): Promise<void> {
  await retryNow(runtime, await runtime.pointers.lastRetries(RETRIED_AFTER_SUCCESS));
}

/** Ends the wait of these records for their retries. */
export async function retryNow(
  { demand, pointers }: Runtime,
  crmCodes: readonly string[],
): Promise<void> {
  for (const crmCode of crmCodes) {
    // In this order: a record that has a place is put off again when its job is delayed.
    await pointers.retryNow(crmCode);
    await demand.retryNow(crmCode);
  }
}

function openObservedService(
  runtime: Runtime,
  address: ServiceAddress,
  requests: WeakMap<Permit, NotedRequest>,
): OpenService {
  const { config, log, metrics, rarely, redis } = runtime;
  return openService(config, redis, address, {
    setsLimits: true,
    onExchange({ permit, operation, method, status, durationMs }) {
      requests.set(permit, { method, status, durationMs });
      metrics.countRequest(method, operation, status);
      metrics.requestDuration.observe({ method }, durationMs / 1000);
      metrics.timeReply(operation, status, durationMs);
    },
    onThrottled: () => metrics.pauses.inc({ reason: "throttled" }),
    log: {
      info: (fields, event) => log.info(fields, event),
      // While Redis is away or full, each connection would log it each second.
      warn: (fields, event) => rarely.warn(fields, event),
    },
  });
}

function trackDenials({ denial, log, metrics }: Runtime) {
  /** The denial that this process has met: requests that were about to follow it are not sent. */
  let met: Denied | undefined;
  let beginning = 0;
  return {
    met: () => met,

    isDenied: async (): Promise<boolean> => {
      const current = await denial.current();
      if (current === undefined && beginning === 0) met = undefined;
      return current !== undefined;
    },

    begin: async (reply: Denied): Promise<void> => {
      met = reply;
      beginning += 1;
      const address = reply.ip ?? "";
      const isNew = await denial.begin(reply.cause, address).finally(() => (beginning -= 1));
      if (!isNew) return;
      metrics.pauses.inc({ reason: `${reply.cause}_denied` });
      log.error({ denied: reply.cause, address: address || undefined }, "service.denied");
    },
  };
}

/** No request can name this crmCode, now or later. Intake refuses such codes; a relation of the service may have one. */
function refusedCode(error: unknown): Extract<ServiceReply, { kind: "rejected" }> {
  if (!(error instanceof CrmCodeError)) throw error;
  const says = `no request can be about this relation, because its ${error.message}: change it at the service`;
  return { kind: "rejected", status: 400, error: says };
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
    case "check":
    case "fetch":
      return client.get(permit, crmCode);
  }
}
