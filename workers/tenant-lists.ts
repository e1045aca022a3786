/**
 * Keeps the tenant's value lists current: requested at the first start, once per hour window, and
 * when they are doubted (the service has rejected a payload, or they refuse a value that may be
 * allowed by now). One process requests them; all read them from Redis. Dead letters that may pass
 * by a changed list are redriven, and records whose relation lacks a value of a list that has more are fetched again.
 */
import { backoffMs } from "../src/event/backoff.ts";
import { tenantFields } from "../src/service-spec/tenant-lists.ts";
import type { Part } from "../src/ops/shutdown.ts";
import { startPolling } from "./poll.ts";
import { redriveAllowed } from "./redrive.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often the stored lists are checked, ms. */
const CHECK_MS = 5000;

/** For how long one process may be busy requesting before another one may, ms. */
const CLAIM_MS = 60_000;

/**
 * A failed request is repeated after a pause that doubles from the first to the longest: each costs quota.
 * While no list is known, events wait for it.
 */
const PAUSES = {
  known: { firstMs: CLAIM_MS, longestMs: 900_000 },
  unknown: { firstMs: 4000, longestMs: 300_000 },
};

/** Most fields that a log line names. */
const MOST_NAMED = 10;

/** How long intake waits at its first start; after that, only the events that need the lists wait, ms. */
const FIRST_WAIT_MS = 3000;

export interface TenantListsKeeper extends Part {
  /** Resolves once the lists are known, or after FIRST_WAIT_MS. */
  readonly known: Promise<void>;
}

/** @param access undefined in a process without the role sync: it only reads. */
export function keepTenantLists(
  runtime: Runtime,
  access: ServiceAccess | undefined,
): TenantListsKeeper {
  const { tenantLists, log, rarely } = runtime;
  const known = Promise.withResolvers<void>();
  const late = setTimeout(() => {
    log.warn({}, "value_lists.unknown");
    known.resolve();
  }, FIRST_WAIT_MS);
  let failures = 0;
  const polling = startPolling({
    everyMs: CHECK_MS,
    async step(signal) {
      if (access !== undefined && (await access.mayAsk()) && (await isDue(runtime))) {
        const isFetched = await requestLists(runtime, access, signal);
        failures = isFetched ? 0 : failures + 1;
        if (!isFetched) {
          const isKnown = (await tenantLists.fetchedAt()) !== undefined;
          await tenantLists.release(backoffMs(failures, PAUSES[isKnown ? "known" : "unknown"]));
        }
      }
      if (!(await tenantLists.reload())) return;
      const grown = access === undefined ? undefined : await tenantLists.haveChanged();
      if (grown !== undefined) await redriveAllowed(runtime, grown);
      clearTimeout(late);
      known.resolve();
    },
    onError: (error) => rarely.warn({ err: error }, "value_lists.check_failed"),
  });
  return {
    known: known.promise,
    async close() {
      clearTimeout(late);
      known.resolve();
      await polling.close();
    },
  };
}

async function isDue({ clock, tenantLists }: Runtime): Promise<boolean> {
  return (await tenantLists.areDue(clock.now())) && tenantLists.claim(CLAIM_MS);
}

async function requestLists(
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<boolean> {
  const { clock, log, rarely, tenantLists } = runtime;
  const permit = await access.quota.acquire("live", signal);
  const reply = await access.client.schemaConfig(permit);
  if (reply.kind === "schema") {
    const changes = (await tenantLists.store(reply, clock.now())) ?? [];
    for (const { field, added, removed, says } of changes) {
      log.info({ fields: [field], added, removed, why: says }, "value_lists.changed");
    }
    const { unusable } = tenantFields(reply.fields);
    if (unusable.length > 0) {
      rarely.warn({ fields: unusable.slice(0, MOST_NAMED) }, "value_lists.field_unusable");
    }
    return true;
  }
  if (reply.kind === "denied") await access.denied(reply);
  rarely.warn({ reply: reply.kind }, "value_lists.fetch_failed");
  return false;
}
