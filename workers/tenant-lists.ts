/**
 * Keeps the tenant's value lists current: asked for at the first start, once per hour window, and
 * after the service has refused a payload; by one process, and read from Redis by all.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often stored lists are looked at, ms. */
const LOOK_MS = 5000;

/** For how long one process may be busy asking before another one may, ms. */
const CLAIM_MS = 60_000;

/** How long intake waits at its first start for the lists to become known, ms. */
const FIRST_WAIT_MS = 15_000;

/** After the service refused a payload they are asked for earlier, but not at every refusal. */
const DOUBTED_PER_HOUR = 12;

export interface TenantListsKeeper {
  /** Resolves once the lists are known, or it is no use to wait longer. */
  readonly known: Promise<void>;
  close(): Promise<void>;
}

/** @param access undefined in a process that has no way to the service; it only reads. */
export function keepTenantLists(
  runtime: Runtime,
  access: ServiceAccess | undefined,
): TenantListsKeeper {
  const { tenantLists, log, throttle, config } = runtime;
  const stop = new AbortController();
  const { promise: known, resolve: nowKnown } = Promise.withResolvers<void>();
  const late = setTimeout(() => {
    log.warn({}, "value_lists.defaults_used");
    nowKnown();
  }, FIRST_WAIT_MS);

  async function look(): Promise<void> {
    if (access !== undefined && (await isDue()) && !(await access.isDenied())) await ask(access);
    if (await tenantLists.reload()) {
      clearTimeout(late);
      nowKnown();
    }
  }

  async function isDue(): Promise<boolean> {
    const at = await tenantLists.fetchedAt();
    const age = at === undefined ? Number.POSITIVE_INFINITY : Date.now() - at;
    if (age < config.QUOTA_HOUR_MS / DOUBTED_PER_HOUR) return false;
    if (age < config.QUOTA_HOUR_MS && !(await tenantLists.isDoubted())) return false;
    return tenantLists.claim(CLAIM_MS);
  }

  async function ask(service: ServiceAccess): Promise<void> {
    const permit = await service.quota.acquire("live", stop.signal);
    const reply = await service.client.schemaConfig(permit);
    if (reply.kind === "schema" && (await tenantLists.store(reply, Date.now()))) return;
    if (reply.kind === "denied") await service.denied(reply);
    throttle("lists", (held) => log.warn({ reply: reply.kind, held }, "value_lists.fetch_failed"));
  }

  async function loop(): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        await look();
        await sleep(LOOK_MS, undefined, { signal: stop.signal });
      } catch (error) {
        if (stop.signal.aborted) return;
        throttle("lists", (held) => log.warn({ err: error, held }, "value_lists.check_failed"));
        await sleep(LOOK_MS, undefined, { signal: stop.signal }).catch(() => {});
      }
    }
  }

  const looping = loop();
  return {
    known,
    async close() {
      stop.abort();
      clearTimeout(late);
      nowKnown();
      await looping;
    },
  };
}
