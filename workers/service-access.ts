/** The daemon's access to the service: quota and client, and whether requests may be sent now. */
import type { Permit } from "../src/core/quota/permit.ts";
import { CrmCodeError, type ServiceClient } from "../src/core/service/client.ts";
import {
  openService,
  type OpenService,
  type ServiceAddress,
} from "../src/core/service/open-service.ts";
import type { Denied, Reply, Throttled } from "../src/core/service/reply.ts";
import type { NotedRequest } from "../src/core/sync/step.ts";
import { doubtedSince, isRejecting } from "../src/core/sync/breaker.ts";
import { reasonAt, type ServiceReply } from "../src/core/sync/service-reply.ts";
import type { Answer } from "../src/core/sync/sync-relation.ts";
import type { TakenState } from "../src/core/sync/run.ts";
import type { Sendable } from "../src/core/sync/decide.ts";
import { redriveRejected } from "./redrive.ts";
import type { Uses } from "./parts.ts";

/** What the requests to the service use. */
export type AccessParts = Uses<
  | "clock"
  | "config"
  | "deadLetters"
  | "denial"
  | "guards"
  | "inbox"
  | "ledger"
  | "log"
  | "metrics"
  | "outage"
  | "rarely"
  | "redis"
  | "staged"
  | "tenant"
  | "trail"
>;

/** The service has taken a change. */
const ACCEPTED: ReadonlySet<ServiceReply["kind"]> = new Set(["created", "updated", "accepted"]);

export interface ServiceAccess extends OpenService {
  readonly baseUrl: string;
  /** The token in force. */
  readonly token: () => string;
  /** Whether the service denies access: then only probes may be sent. */
  isDenied(): Promise<boolean>;
  /** Whether anything but probes may be sent: access is not denied, and the token is of the ledger's tenant. */
  mayAsk(): Promise<boolean>;
  /**
   * Whether changes may be sent: SEND is on, the service may be asked (`mayAsk`), the ledger is warm or known to be
   * cold, and the audit trail can be written.
   */
  isReady(): Promise<boolean>;
  /** Whether one change may be sent now: `isReady`, and no outage, or this is the outage's one try. */
  mayTry(): Promise<boolean>;
  /** What was sent with this permit; undefined when nothing was. */
  requestOf(permit: Permit): NotedRequest | undefined;
  /** Spends the permit on the request that a decision needs. */
  send(permit: Permit, decision: Sendable, state: TakenState): Promise<Answer>;
  /** Shares a denial: all processes stop sending. */
  denied(reply: Denied): Promise<void>;
}

/** A process that was ready does not ask Redis again within this time, ms. */
const READY_FOR_MS = 200;

export function openServiceAccess(parts: AccessParts, address: ServiceAddress): ServiceAccess {
  const { guards, ledger, outage, tenant, trail } = parts;
  const requests = new WeakMap<Permit, NotedRequest>();
  const service = openObservedService(parts, address, requests);
  const denials = trackDenials(parts);

  let readyUntil = 0;

  async function isReady(): Promise<boolean> {
    if (parts.config.SEND === "off" || trail?.isWritable === false) return false;
    if (performance.now() < readyUntil) return true;
    // Before the ledger is read: it is forgotten here if Redis went back.
    await guards.checked();
    // Together, because Redis may be far away.
    const [isAllowed, { state }] = await Promise.all([mayAsk(), ledger.warmUp()]);
    const ready = isAllowed && (state === "done" || state === "cold");
    readyUntil = ready ? performance.now() + READY_FOR_MS : 0;
    return ready;
  }

  /** If Redis cannot tell it, the record has its own delay: what was sent must be settled all the same. */
  async function refused(reply: Denied | Throttled): Promise<Answer> {
    const until =
      reply.kind === "throttled"
        ? service.quota.state().then((state) => state.until)
        : parts.denial.current().then((current) => current?.nextProbeAt);
    return { ...said(reply), stoppedUntil: await until.catch(() => undefined) };
  }

  async function mayAsk(): Promise<boolean> {
    return tenant.isKnown(address.token()) && !(await denials.isDenied());
  }

  return {
    ...service,
    baseUrl: address.baseUrl,
    token: address.token,
    isDenied: denials.isDenied,
    mayAsk,
    isReady,
    mayTry: async () => (await isReady()) && (await outage.waitMs()) === 0,
    denied: denials.begin,
    requestOf: (permit) => requests.get(permit),

    async send(permit, decision, state) {
      const denial = denials.met();
      if (denial !== undefined) return refused(denial);
      const token = address.token();
      const reply = await sendDecision(service.client, permit, decision, state.crmCode).catch(
        refusedCode,
      );
      // The token has changed since the permit was asked for: the change is sent once the new one was checked.
      if (reply.kind === "throttled" && !requests.has(permit)) return said(reply);
      if (reply.kind === "unavailable" && reply.reason === "forbidden") {
        await parts.denial.askForProbe();
      }
      if (reply.kind === "denied") {
        // A 401 to a token that was replaced meanwhile says nothing about the one in force.
        if (reply.cause !== "token" || token === address.token()) await denials.begin(reply);
        return refused(reply);
      }
      const isRejecting = await tellBreaker(parts, reply, state, address.baseUrl);
      return reply.kind === "throttled" ? refused(reply) : said(reply, isRejecting);
    },
  };
}

const said = (reply: ServiceReply, isRejecting = false): Answer => ({ reply, isRejecting });

/** Tells the circuit breaker (src/core/sync/breaker.ts). @returns whether the service rejects everything by now. */
async function tellBreaker(
  parts: AccessParts,
  reply: ServiceReply,
  { change: { tries }, crmCode }: TakenState,
  baseUrl: string,
): Promise<boolean> {
  const { clock, log, metrics, outage, staged } = parts;
  const again = tries?.putOff !== undefined;
  const change =
    reply.kind === "unavailable"
      ? await outage.failed(reply.reason, tries?.failed === undefined, reasonAt(reply, baseUrl))
      : reply.kind === "rejected"
        ? await outage.rejected(crmCode, again)
        : await outage.answered(ACCEPTED.has(reply.kind), again);
  if (change === undefined) return false;
  const { after, before } = change;
  if (before.open === undefined && after.open !== undefined) {
    metrics.pauses.inc({ reason: "unavailable" });
    log.error({ reason: after.open.reason }, "service.unavailable");
  }
  if (before.open !== undefined && after.open === undefined) {
    if (after.believed === true) log.warn({}, "service.rejects_all");
    else log.info({}, "service.recovered");
    // If this fails, their own retries remain.
    void staged.retryAll(clock.now()).catch(() => {});
  }
  const since = again && ACCEPTED.has(reply.kind) ? doubtedSince(before) : undefined;
  if (since !== undefined) void redriveRejected(parts, since).catch(() => {});
  return isRejecting(after);
}

function openObservedService(
  parts: AccessParts,
  address: ServiceAddress,
  requests: WeakMap<Permit, NotedRequest>,
): OpenService {
  const { config, log, metrics, rarely, redis, tenant } = parts;
  return openService(config, redis, address, {
    setsLimits: true,
    admits: (token) => tenant.isKnown(token),
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

function trackDenials({ denial, log, metrics }: AccessParts) {
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
): Promise<Reply<"create" | "update" | "get">> {
  switch (decision.kind) {
    case "create":
      return client.create(permit, decision.body);
    case "update":
      return client.update(permit, crmCode, decision.body);
    case "fetch":
      return client.get(permit, crmCode);
  }
}
