/**
 * Makes sure of a token's tenant before anything is sent with it: a token that has changed may be that of
 * another tenant, and persons would reach a stranger. What the ledger knows must be there.
 */
import { backoffMs } from "../src/core/event/backoff.ts";
import type { ServiceAddress } from "../src/core/service/open-service.ts";
import type { TokenDoubt } from "../src/core/state/heartbeats.ts";
import { tokenName } from "../src/core/state/known-service.ts";
import type { ChoreWork } from "./chores.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

/** This many relations must be missing before a token counts as another tenant's: one may be gone. */
const SAMPLES = 3;

/** A check without an answer is repeated after a pause that doubles from the first to the longest, ms. */
const PAUSES = { firstMs: 1000, longestMs: 60_000 };

/** The relations of another tenant's token are looked for again after this, ms. */
const FOREIGN_PAUSE_MS = 600_000;

type MeetParts = Uses<"knownService" | "ledger" | "tenant">;

/**
 * Accepts a token that needs no request: it was accepted before, or the ledger knows no relation.
 * @returns otherwise the relations that must be there.
 */
export async function meetTenant(
  { knownService, ledger, tenant }: MeetParts,
  token: string,
): Promise<readonly string[]> {
  const name = tokenName(token);
  if ((await knownService.hasToken(name)) !== true) {
    const known = await ledger.someExisting(SAMPLES);
    if (known.length > 0) return known;
    await knownService.firstToken(name);
  }
  tenant.accept(token);
  return [];
}

/** Checks each new token. A check costs one request, and as many as SAMPLES if it is another tenant's. */
export function keepTenantKnown(
  parts: MeetParts & Uses<"log">,
  access: ServiceAccess,
  { token }: ServiceAddress,
): ChoreWork {
  const { knownService, log, tenant } = parts;
  let checked = "";
  let checks = 0;
  let failures = 0;
  let nextAt = 0;

  async function check(own: string, known: readonly string[], signal: AbortSignal): Promise<void> {
    const verdict = await tenantOf(access, own, known, signal);
    // The token may have changed again.
    if (token() !== own) return;
    if (verdict === "own") {
      await knownService.addToken(tokenName(own));
      return tenant.accept(own);
    }
    tenant.refuse(verdict);
    failures += 1;
    const pauseMs = verdict === "foreign" ? FOREIGN_PAUSE_MS : backoffMs(failures, PAUSES);
    nextAt = performance.now() + pauseMs;
  }

  const unlisten = tenant.onChange(() => {
    if (tenant.doubt === undefined) log.info({}, "service.tenant_known");
    else log.error({ why: tenant.doubt }, "service.tenant_unknown");
  });
  return {
    async run(signal) {
      const own = token();
      // A former token may be back, that of the ledger's tenant.
      if (tenant.isKnown(own)) return tenant.accept(own);
      const known = await meetTenant(parts, own);
      if (known.length === 0) return;
      if (own !== checked) {
        checked = own;
        failures = 0;
        nextAt = 0;
      }
      if (performance.now() < nextAt || (await access.isDenied())) return;
      // Each check begins with another one: the service may have a fault with one relation alone.
      const from = checks % known.length;
      checks += 1;
      await check(own, [...known.slice(from), ...known.slice(0, from)], signal);
    },
    close: async () => unlisten(),
  };
}

/** @param token the only one that is used @param known relations that the service has, if the token is of their tenant. */
async function tenantOf(
  access: ServiceAccess,
  token: string,
  known: readonly string[],
  signal: AbortSignal,
): Promise<"own" | TokenDoubt> {
  for (const crmCode of known) {
    const permit = await access.quota.acquire("live", signal);
    const reply = await access.client.get(permit, crmCode, { anyTenant: true, token });
    if (reply.kind === "found") return "own";
    if (reply.kind === "denied") await access.denied(reply);
    // A service that changes codes may show a relation of anybody here.
    if (reply.kind === "renamed") return "unavailable";
    if (reply.kind !== "missing") return reply.kind;
  }
  return "foreign";
}
