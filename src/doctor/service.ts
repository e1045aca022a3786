/** Checks the service with one request, which needs a permit like every other. */
import { openService } from "../service/open-service.ts";
import type { SchemaReply } from "../service/reply.ts";
import { tenantListsOf, tenantSchemaResponse } from "../service-spec/tenant-lists.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { clockCheck } from "./redis.ts";

/** Longest wait for a permit: the doctor does not wait for an exhausted hour, ms. */
const PERMIT_WAIT_MS = 5000;

/** The Date header has whole seconds. */
const HEADER_PRECISION_MS = 500;

export async function checkService(
  stores: Stores,
  baseUrl: string,
  token: string,
): Promise<Check[]> {
  const checks: Check[] = [];
  const service = openService(
    stores.config,
    stores.redis,
    { baseUrl, token: () => token },
    {
      onExchange({ serviceClock, durationMs }) {
        if (serviceClock === undefined) return;
        const here = Date.now() - durationMs / 2;
        const ahead = serviceClock + HEADER_PRECISION_MS - here;
        checks.push(clockCheck("clock, service", Math.abs(ahead) < 1000 ? 0 : ahead));
      },
    },
  );
  try {
    const permit = await service.quota
      .acquire("live", AbortSignal.timeout(PERMIT_WAIT_MS))
      .catch(() => {});
    if (permit === undefined) {
      const says = `not checked: no request may be sent now, because ${await whyNoPermit(stores)}`;
      return [warn("token", says, "Run it again after that; crmsync status has the details.")];
    }
    const reply = await service.client.schemaConfig(permit);
    // All processes continue at once when the service grants access again.
    if (reply.kind === "schema") await stores.denial.end();
    return [...checks, ...checksOf(reply)];
  } finally {
    await service.close();
  }
}

async function whyNoPermit({ quotaState }: Stores): Promise<string> {
  const { remaining, resetAt, until } = await quotaState();
  if (until !== undefined) {
    return `the service answered 429, until ${new Date(until).toISOString()}`;
  }
  if (remaining > 0) return "others wait for permits too, or Redis does not accept writes";
  return `the hour's quota is spent, until ${new Date(resetAt).toISOString()}`;
}

function checksOf(reply: SchemaReply): Check[] {
  switch (reply.kind) {
    case "schema":
      return [ok("token", "accepted"), ok("address", "accepted"), checkLists(reply)];
    case "denied":
      return reply.cause === "token"
        ? [
            fail(
              "token",
              "denied (401): missing, wrong, revoked, or of another environment",
              "Ask the service's support for a new token and write it into the file of SERVICE_TOKEN_FILE: it is used at once.",
            ),
          ]
        : [
            ok("token", "not denied before the address was"),
            fail(
              "address",
              `denied (403): the service sees us as ${reply.ip ?? "an address that it does not name"}`,
              "Have this address put on the service's allow-list, or send through a proxy whose address is on it (HTTPS_PROXY).",
            ),
          ];
    case "throttled":
      return [
        warn(
          "quota",
          "the service answered 429",
          "crmsync waits as long as the service asks. Check whether another program uses the same token.",
        ),
      ];
    case "rejected":
      return [
        fail(
          "service",
          `schema-config was answered with ${reply.status}`,
          "Check that SERVICE_BASE_URL is the address of the service, without /v1.1.",
        ),
      ];
    case "unavailable":
      return [
        fail(
          "service",
          `no usable reply (${reply.reason}${reply.status === undefined ? "" : `, ${reply.status}`})`,
          "See the lines about name and connection. If they are ok, the service itself has a problem, or SERVICE_BASE_URL is not its address.",
        ),
      ];
  }
}

function checkLists(reply: Extract<SchemaReply, { kind: "schema" }>): Check {
  const parsed = tenantSchemaResponse.safeParse({ fields: reply.fields });
  if (!parsed.success) {
    return warn(
      "value lists",
      "schema-config does not have the fields that the specification promises",
      "The last known lists stay in force. Report it to the service's support.",
    );
  }
  const lists = tenantListsOf(parsed.data);
  const required = [...lists].filter(([, { isRequired }]) => isRequired).map(([field]) => field);
  const needed = required.length === 0 ? "" : `; the tenant requires ${required.join(", ")}`;
  return ok("value lists", `${lists.size} fields configured${needed}`);
}
