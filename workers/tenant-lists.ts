/**
 * Keeps the tenant's value lists current: requested at the first start, once per hour window, and
 * when they are doubted (the service has rejected a payload, or they refuse a value that may be
 * allowed by now). One process requests them; all read them from Redis. Dead letters that may pass
 * by a changed list are redriven, and records whose relation lacks a value of a list that has more are fetched again.
 */
import { backoffMs } from "../src/core/event/backoff.ts";
import { tenantFields } from "../src/core/service-spec/tenant-lists.ts";
import type { ChoreWork } from "./chores.ts";
import { redriveAllowed, type RedriveParts } from "./redrive.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

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

export interface TenantListsKeeper extends ChoreWork {
  /** Resolves once the lists are known, or after FIRST_WAIT_MS. */
  readonly known: Promise<void>;
}

/** @param access undefined in a process without the role sync: it only reads. */
export function keepTenantLists(
  parts: RedriveParts,
  access: ServiceAccess | undefined,
): TenantListsKeeper {
  const { log, tenantLists } = parts;
  const known = Promise.withResolvers<void>();
  const late = setTimeout(() => {
    log.warn({}, "value_lists.unknown");
    known.resolve();
  }, FIRST_WAIT_MS);
  let failures = 0;
  return {
    known: known.promise,
    async run(signal) {
      if (access !== undefined && (await access.mayAsk()) && (await isDue(parts))) {
        const isFetched = await requestLists(parts, access, signal);
        failures = isFetched ? 0 : failures + 1;
        if (!isFetched) {
          const isKnown = (await tenantLists.fetchedAt()) !== undefined;
          await tenantLists.release(backoffMs(failures, PAUSES[isKnown ? "known" : "unknown"]));
        }
      }
      if (!(await tenantLists.reload())) return;
      const grown = access === undefined ? undefined : await tenantLists.haveChanged();
      if (grown !== undefined) await redriveAllowed(parts, grown);
      clearTimeout(late);
      known.resolve();
    },
    async close() {
      clearTimeout(late);
      known.resolve();
    },
  };
}

async function isDue({ clock, tenantLists }: Uses<"clock" | "tenantLists">): Promise<boolean> {
  return (await tenantLists.areDue(clock.now())) && tenantLists.claim(CLAIM_MS);
}

async function requestLists(
  { clock, log, rarely, tenantLists }: Uses<"clock" | "log" | "rarely" | "tenantLists">,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<boolean> {
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
