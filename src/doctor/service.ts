/** Does the service let us in? One request, with a permit as every other. */
import { createServiceClient } from "../service/client.ts";
import { createQuota } from "../quota/quota.ts";
import type { SchemaReply } from "../service/reply.ts";
import { tenantListsOf, tenantSchemaResponse } from "../service-spec/tenant-lists.ts";
import { quotaOptions, type Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { clockCheck } from "./redis.ts";

/** Longest wait for a permit: the doctor does not outwait an exhausted hour, ms. */
const PERMIT_WAIT_MS = 5000;

/** The Date header tells whole seconds. */
const HEADER_PRECISION_MS = 500;

export async function checkService(
  stored: Stores,
  baseUrl: string,
  token: string,
): Promise<Check[]> {
  const { config } = stored;
  const checks: Check[] = [];
  // The quota waits for a connection that nobody would open.
  const redis = stored.redis.duplicate({ lazyConnect: false });
  redis.on("error", () => {});
  const quota = createQuota({ ...quotaOptions(config), redis });
  const client = createServiceClient({
    baseUrl,
    token: () => token,
    timeoutMs: config.SERVICE_TIMEOUT_MS,
    proxy: {
      httpProxy: config.HTTP_PROXY,
      httpsProxy: config.HTTPS_PROXY,
      noProxy: config.NO_PROXY,
    },
    onExchange({ serviceClock, durationMs }) {
      if (serviceClock === undefined) return;
      const here = Date.now() - durationMs / 2;
      const ahead = serviceClock + HEADER_PRECISION_MS - here;
      checks.push(clockCheck("clock, service", Math.abs(ahead) < 1000 ? 0 : ahead));
    },
  });
  try {
    const permit = await quota.acquire("live", AbortSignal.timeout(PERMIT_WAIT_MS)).catch(() => {});
    if (permit === undefined) {
      const says = `not asked, since no request may be sent now: ${await whyNoPermit(stored)}`;
      return [warn("token", says, "Ask again when that is over; crmsync status tells more.")];
    }
    const reply = await client.schemaConfig(permit);
    checks.push(...judge(reply));
    await tellDoors(stored, reply);
    return checks;
  } finally {
    await client.close();
    await quota.disconnect();
    redis.disconnect();
  }
}

async function whyNoPermit({ quotaState }: Stores): Promise<string> {
  const { remaining, resetAt, until } = await quotaState();
  if (until !== undefined)
    return `the service answered 429, until ${new Date(until).toISOString()}`;
  if (remaining > 0) return "others wait for permits too, or Redis takes no writes";
  return `the hour's quota is spent, until ${new Date(resetAt).toISOString()}`;
}

/** What the daemon would have learned: a door found open lets all processes go on at once. */
async function tellDoors({ denial }: Stores, reply: SchemaReply): Promise<void> {
  if (reply.kind === "schema") await denial.end();
}

function judge(reply: SchemaReply): Check[] {
  switch (reply.kind) {
    case "schema":
      return [ok("token", "accepted"), ok("address", "admitted"), judgeLists(reply)];
    case "denied":
      return reply.cause === "token"
        ? [
            fail(
              "token",
              "refused (401): missing, wrong, revoked, or of another environment",
              "Ask the service's support for a new one, and write it into the file of SERVICE_TOKEN_FILE: it is used at once.",
            ),
          ]
        : [
            ok("token", "not refused before the address was"),
            fail(
              "address",
              `refused (403): the service sees us as ${reply.ip ?? "an address that it does not name"}`,
              "Have this address put on the service's allow-list, or send through a proxy whose address is on it (HTTPS_PROXY).",
            ),
          ];
    case "throttled":
      return [
        warn(
          "quota",
          "the service answered 429",
          "It says when to go on, and crmsync waits until then; see whether another program uses the same token.",
        ),
      ];
    case "rejected":
      return [
        fail(
          "service",
          `schema-config was answered ${reply.status}`,
          "See that SERVICE_BASE_URL is the service's address, without /v1.1.",
        ),
      ];
    case "unavailable":
      return [
        fail(
          "service",
          `no usable answer (${reply.reason}${reply.status === undefined ? "" : `, ${reply.status}`})`,
          "See the lines on name and connection; if they are ok, the service itself is in trouble, or SERVICE_BASE_URL is not its address.",
        ),
      ];
  }
}

function judgeLists(reply: Extract<SchemaReply, { kind: "schema" }>): Check {
  const parsed = tenantSchemaResponse.safeParse({ fields: reply.fields });
  if (!parsed.success) {
    return warn(
      "value lists",
      "schema-config is not what the specification promises",
      "The last known lists stay in force; tell the service's support.",
    );
  }
  const lists = tenantListsOf(parsed.data);
  const required = [...lists].filter(([, { isRequired }]) => isRequired).map(([field]) => field);
  const demands = required.length === 0 ? "" : `; the tenant requires ${required.join(", ")}`;
  return ok("value lists", `${lists.size} fields configured${demands}`);
}
