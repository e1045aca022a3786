/** Checks the service with one request, which needs a permit like every other. */
import { crmsync } from "../../base/command.ts";
import { patienceMs, TooLate, within } from "../../base/deadline.ts";
import { openService } from "../../core/service/open-service.ts";
import type { Reply } from "../../core/service/reply.ts";
import { readOne } from "../../base/redis-reading.ts";
import { listChanges } from "../../core/service-spec/list-changes.ts";
import { tenantFields, tenantListsOf } from "../../core/service-spec/tenant-lists.ts";
import { tokenName } from "../../core/state/known-service.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import { pingOf, REDIS_DEADLINE_MS } from "../status/readings.ts";
import { notSendingIn } from "../status/process-findings.ts";
import { medianOf } from "../status/slowness.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { clockCheck } from "./clock.ts";
import { NOT_SENT, reasonOf } from "../../core/sync/service-reply.ts";

/** Longest wait for a permit: the doctor does not wait for an exhausted hour, ms. */
const PERMIT_WAIT_MS = 2000;

/** A busy machine may use a permit too late. */
const MORE_PERMITS = 2;

/** A permit needs about so many answers of Redis. */
const PERMIT_ANSWERS = 20;

/** The Date header has whole seconds: half of one may be missing. */
const HEADER_PRECISION_MS = 500;

/** A reply that takes longer than this, and than three usual ones, is slow, ms. */
const SLOW_MS = 1000;
const SLOW_FACTOR = 3;

export async function checkService(
  stores: Stores,
  baseUrl: string,
  token: string,
): Promise<Check[]> {
  const checks: Check[] = await checkLimit(stores);
  let took = 0;
  const service = openService(
    stores.config,
    stores.redis,
    { baseUrl, token: () => token },
    {
      onExchange({ serviceClock, durationMs }) {
        took = durationMs;
        if (serviceClock === undefined) return;
        // The service wrote its time at some moment of the exchange: a slow service has no wrong clock.
        const uncertainMs = durationMs / 2 + HEADER_PRECISION_MS;
        const aheadMs = serviceClock + HEADER_PRECISION_MS - (Date.now() - durationMs / 2);
        checks.push(clockCheck("clock, service", aheadMs, uncertainMs));
      },
    },
  );
  try {
    const pingMs = await within(REDIS_DEADLINE_MS, pingOf(stores.redis));
    const waitMs = Math.ceil(Math.max(PERMIT_WAIT_MS, PERMIT_ANSWERS * pingMs));
    /** Undefined: no request may be sent now. */
    const ask = async () => {
      const permit = await service.quota
        .acquire("live", AbortSignal.timeout(waitMs))
        .catch(() => {});
      return permit && within(patienceMs(), service.client.schemaConfig(permit)).catch(lateReply);
    };
    let reply = await ask();
    for (let more = MORE_PERMITS; reply && isNotSent(reply) && more > 0; more -= 1)
      reply = await ask();
    if (reply === undefined) {
      const says = `not checked: no request may be sent now, because ${await whyNoPermit(stores)}`;
      const remedy = `Run it again after that; ${crmsync`status`} has the details.`;
      return [...checks, warn("token", says, remedy)];
    }
    if ("result" in reply) return [...checks, reply];
    // All processes continue at once when the service grants access again.
    if (reply.kind === "schema") await stores.denial.end();
    if (took > 0) checks.push(await checkDuration(stores, took));
    return [
      ...checks,
      ...checksOf(reply),
      ...(await checkTenant(stores, token, reply)),
      ...(await checkLists(stores, reply)),
    ];
  } finally {
    // Not awaited: it would wait for a request that hangs.
    void service.close().catch(() => {});
  }
}

/** The limit of all processes is that of the daemon that was started last. */
async function checkLimit({ config, quotaState, redis }: Stores): Promise<Check[]> {
  const { limit } = await readOne(redis, quotaState);
  const ours = config.QUOTA_PER_HOUR;
  if (limit === ours) return [];
  const says = `QUOTA_PER_HOUR is ${ours} here, and ${limit} where a daemon was started last: ${limit} is in force`;
  const remedy =
    "Run the command with the daemon's configuration, or restart the daemon with the new value.";
  return [warn("quota", says, remedy)];
}

function lateReply(error: unknown): Check {
  if (!(error instanceof TooLate)) throw error;
  return fail(
    "service",
    `its request had ${error.message}`,
    "Run it again. If it stays so, the service is too slow, or hangs: see docs/runbook.md#crmsyncserviceunavailable.",
  );
}

async function whyNoPermit({ quotaState, redis }: Stores): Promise<string> {
  const { foreign, remaining, resetAt, until } = await readOne(redis, quotaState);
  if (until !== undefined) {
    return `the service answered 429, until ${new Date(until).toISOString()}`;
  }
  if (remaining > 0) return "others wait for permits too, or Redis does not accept writes";
  const says = foreign === 0 ? "" : "the service says that ";
  return `${says}the hour's quota is spent, until ${new Date(resetAt).toISOString()}`;
}

function checksOf(reply: Reply<"schema-config">): Check[] {
  switch (reply.kind) {
    case "schema":
      return [ok("token", "accepted"), ok("address", "accepted")];
    case "denied":
      if (reply.cause === "token") return [fail("token", TOKEN_DENIED, NEW_TOKEN)];
      return [
        ok("token", "not denied before the address was"),
        fail(
          "address",
          `denied (403): the service sees us as ${reply.ip ?? "an address that it does not name"}`,
          "Have this address put on the service's allow-list, or send through a proxy whose address is on it (HTTPS_PROXY).",
        ),
      ];
    case "throttled":
      return [warn("quota", "the service answered 429", THROTTLED)];
    case "rejected":
      return [fail("service", `schema-config was answered with ${reply.status}`, REJECTED)];
    case "unavailable": {
      if (isNotSent(reply)) {
        const says = "not checked: this machine is too busy to use a permit in time";
        return [warn("token", says, "Run it again.")];
      }
      return [fail("service", `no usable reply (${reasonOf(reply)})`, UNAVAILABLE)];
    }
  }
}

const isNotSent = (reply: Reply<"schema-config"> | Check): boolean =>
  "kind" in reply && reply.kind === "unavailable" && NOT_SENT.has(reply.reason);

const TOKEN_DENIED = "denied (401): missing, wrong, revoked, or of another environment";
const NEW_TOKEN =
  "Ask the service's support for a new token and write it into the file of SERVICE_TOKEN_FILE: it is used at once.";
const THROTTLED =
  "crmsync waits as long as the service asks. Check whether another program uses the same token.";
const REJECTED = "Check that SERVICE_BASE_URL is the address of the service, without /v1.1.";
const UNAVAILABLE =
  "See the lines about name and connection. If they are ok, the service itself has a problem, or SERVICE_BASE_URL is not its address.";

/**
 * A line only for a token that no daemon has met: it checks that one before it sends, and says itself what is
 * wrong with it.
 */
async function checkTenant(
  { heartbeats, knownService }: Stores,
  token: string,
  { kind }: Reply<"schema-config">,
): Promise<Check[]> {
  if (kind !== "schema" || (await knownService.hasToken(tokenName(token))) !== false) return [];
  const processes = await heartbeats.running();
  if (!notSendingIn({ processes }, "tokenDoubt").isNone) return [];
  const says = "the token is new: whether it is of the ledger's tenant is not known yet";
  const remedy = `A daemon that has it asks for relations that it knows before it sends anything; ${crmsync`status`} says what came of it.`;
  return [warn("tenant", says, remedy)];
}

async function checkLists(stores: Stores, reply: Reply<"schema-config">): Promise<Check[]> {
  if (reply.kind !== "schema") return [];
  const { usable, unusable } = tenantFields(reply.fields);
  if (unusable.length > 0) {
    const says = `schema-config has fields that are not as the specification promises: ${unusable.join(", ")}`;
    const remedy = "Their last known lists stay in force. Report it to the service's support.";
    return [warn("value lists", says, remedy)];
  }
  const { clock, tenantLists } = stores;
  const lists = tenantListsOf(usable);
  const isKnown = await tenantLists.reload();
  const changes = isKnown ? listChanges(tenantLists.current(), lists) : [];
  if (changes.length > 0) {
    await tenantLists.doubt(clock.now());
    const all = changes.map((change) => `${change.field} (${change.says})`).join("; ");
    const says = `the service's lists differ from those in use: ${all}`;
    const remedy =
      "A running process fetches them again within ten minutes; the log names the change (value_lists.changed). Dead letters that they no longer refuse are then redriven.";
    return [warn("value lists", says, remedy)];
  }
  const required = [...lists].filter(([, { isRequired }]) => isRequired).map(([field]) => field);
  const needed = required.length === 0 ? "" : `; the tenant requires ${required.join(", ")}`;
  return [ok("value lists", `${lists.size} fields configured${needed}`)];
}

async function checkDuration(stores: Stores, tookMs: number): Promise<Check> {
  const usualMs = medianOf(sumOf(await readOne(stores.redis, stores.durations.reading())));
  const usual = usualMs === undefined ? "" : `; usual are ${(usualMs / 1000).toFixed(2)} s`;
  const says = `the service answered in ${(tookMs / 1000).toFixed(2)} s${usual}`;
  return tookMs > Math.max(SLOW_MS, SLOW_FACTOR * (usualMs ?? 0))
    ? warn("reply time", says, "Ask the service's support whether it is slow, if this continues.")
    : ok("reply time", says);
}
