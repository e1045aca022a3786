/**
 * Makes sure of a token's tenant before anything is sent with it: a token that has changed may be that of
 * another tenant, and persons would reach a stranger. What the ledger knows must be there.
 */
import { backoffMs } from "../src/event/backoff.ts";
import type { ServiceAddress } from "../src/service/open-service.ts";
import type { TokenDoubt } from "../src/state/heartbeats.ts";
import { tokenName } from "../src/state/known-service.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often the token is looked at, ms. */
const CHECK_MS = 1000;

/** This many relations must be missing before a token counts as another tenant's: one may be gone. */
const SAMPLES = 3;

/** A check without an answer is repeated after a pause that doubles from the first to the longest, ms. */
const PAUSES = { firstMs: 1000, longestMs: 60_000 };

/** The relations of another tenant's token are looked for again after this, ms. */
const FOREIGN_PAUSE_MS = 600_000;

/**
 * Accepts a token that needs no request: it was accepted before, or the ledger knows no relation.
 * @returns otherwise the relations that must be there.
 */
export async function meetTenant(
  { knownService, ledger, tenant }: Runtime,
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
  runtime: Runtime,
  access: ServiceAccess,
  { token }: ServiceAddress,
): Polling {
  const { knownService, log, rarely, tenant } = runtime;
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
  const polling = startPolling({
    everyMs: CHECK_MS,
    async step(signal) {
      const own = token();
      // A former token may be back, that of the ledger's tenant.
      if (tenant.isKnown(own)) return tenant.accept(own);
      const known = await meetTenant(runtime, own);
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
    onError: (error) => rarely.warn({ err: error }, "service.tenant_unchecked"),
  });
  return {
    async close() {
      unlisten();
      await polling.close();
    },
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
