/**
 * Keeps the ledger warm: at the first start, and whenever Redis has lost it, the service is listed
 * before changes are sent. Any process may list; one at a time does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ListReply } from "../src/service/reply.ts";
import { RENEW_WARM_UP_MS, type WarmUp } from "../src/state/ledger.ts";
import { retryDelay } from "../src/sync/retry-delay.ts";
import { rowOf } from "../src/sync/ledger-row.ts";
import { addPointers } from "./report-accepted.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** After this many failures in a row, changes are sent without a warm ledger. */
const TRIES = 5;

/** After this part of the hour window the service is listed again, if an outage may have kept it from that. */
const OUTAGE_PART = 1 / 12;

/** How often the ledger is checked, ms: how long a lost one may go unnoticed. */
const CHECK_MS = 500;

export function keepLedgerWarm(runtime: Runtime, access: ServiceAccess): Polling {
  const { config, ledger, rarely } = runtime;
  const owner = randomUUID();
  let failures = 0;
  return startPolling({
    everyMs: CHECK_MS,
    rest: runtime.rest,
    async step(signal) {
      const warmUp = await ledger.warmUp();
      if (!isListDue(warmUp, config.QUOTA_HOUR_MS, Date.now()) || !(await access.mayAsk())) return;
      // Look first whether Redis went back: what is listed before this is noticed is forgotten again.
      await runtime.rest.checked(0);
      if (!(await ledger.claimWarmUp(owner))) return;
      if (warmUp.lost) rarely.error({}, "ledger.lost");
      // A permit may be an hour away: no other process lists meanwhile.
      const renew = () => void ledger.claimWarmUp(owner).catch(() => {});
      const renewing = setInterval(renew, RENEW_WARM_UP_MS);
      const listing = listFrom(warmUp, runtime, access, signal);
      const result = await listing.finally(() => clearInterval(renewing));
      await ledger.releaseWarmUp(owner);
      failures = result === "failed" ? failures + 1 : 0;
      if (result === "failed") await pauseOrContinueCold(runtime, failures, signal);
    },
    onError: (error) => rarely.warn({ err: error }, "ledger.warm_up_interrupted"),
  });
}

/**
 * An empty list is requested again once per hour window. So is a listing that was rejected: it may
 * take many requests to come so far again. After another failure, perhaps of a short outage, the
 * service is listed sooner.
 */
export function isListDue(warmUp: WarmUp, hourMs: number, now: number): boolean {
  const { state, coldSince, cursor, failure, listedAt = 0, relations } = warmUp;
  if (state === "cold") {
    const pauseMs = failure?.startsWith("rejected") === true ? hourMs : hourMs * OUTAGE_PART;
    return now - (coldSince ?? 0) > pauseMs;
  }
  if (state !== "done" || cursor !== undefined) return true;
  return relations === 0 && now - listedAt > hourMs;
}

async function pauseOrContinueCold(
  { config, ledger, log }: Runtime,
  failures: number,
  signal: AbortSignal,
): Promise<void> {
  if (failures >= TRIES) {
    log.warn({}, "ledger.cold");
    await ledger.continueCold(Date.now());
    return;
  }
  await sleep(retryDelay(failures, config.RETRY_BASE_MS, Math.random), undefined, { signal });
}

/** Continues the listing where the last run ended. */
async function listFrom(
  { cursor }: WarmUp,
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<"done" | "failed" | "again"> {
  const { keptFields, keyring, ledger, log } = runtime;
  const fingerprintOf = await keyring.fingerprintOf(await keptFields.current());
  let askedAt = 0;
  const acquire = async () => {
    const permit = await access.quota.acquire("live", signal);
    askedAt = Date.now();
    return permit;
  };
  let page = cursor;
  for await (const reply of access.client.list(acquire, cursor)) {
    if (reply.kind !== "page") return listingFailed(runtime, access, reply, cursor !== undefined);
    const rows = reply.relations.map(
      (relation) => [relation.crmCode, rowOf(relation, Date.now(), fingerprintOf)] as const,
    );
    await makeUpForDeletions(runtime, reply.relations);
    if (!(await ledger.writePage(rows, reply.nextCursor, page, askedAt))) return "again";
    page = reply.nextCursor;
  }
  const { relations } = await ledger.warmUp();
  log.info({ relations }, "ledger.warm");
  return "done";
}

/** Stages deletions that were left out because an earlier list was empty; before the page is written. */
async function makeUpForDeletions(
  runtime: Runtime,
  relations: Extract<ListReply, { kind: "page" }>["relations"],
): Promise<void> {
  const { clock, ledger, log, staged } = runtime;
  const active = relations.filter(({ relationStatus }) => relationStatus !== "terminated");
  const leftOut = await ledger.doubtAssumed(active.map(({ crmCode }) => crmCode));
  if (leftOut.length === 0) return;
  const { applyTermination } = await import("../src/reconcile/apply-entry.ts");
  for (const code of leftOut) {
    const [deletedAt = ""] = (await ledger.row(code))?.watermark.split("\t") ?? [];
    // Staged just after that deletion's time: a newer change, waiting or coming late, stays newer.
    const asOf = new Date((Date.parse(deletedAt) || clock.now()) + 1).toISOString();
    const applied = await applyTermination({ code, was: "" }, asOf, { ledger, staged });
    await addPointers(runtime, applied.staged === undefined ? [] : [applied.staged]);
  }
  log.warn({ relations: leftOut.length }, "ledger.list_was_empty");
}

async function listingFailed(
  { ledger, log }: Runtime,
  access: ServiceAccess,
  reply: Exclude<ListReply, { kind: "page" }>,
  resumed: boolean,
): Promise<"failed" | "again"> {
  // The pause that a 429 asks for is shared: the next permit waits for its end.
  if (reply.kind === "throttled") return "again";
  if (reply.kind === "denied") {
    await access.denied(reply);
    return "again";
  }
  // The cursor may have expired: start again.
  if (reply.kind === "rejected" && resumed) await ledger.restartWarmUp();
  const reason = reply.kind === "unavailable" ? reply.reason : `${reply.kind} ${reply.status}`;
  await ledger.listingFailed(reason);
  log.warn({ reply: reply.kind, reason }, "ledger.listing_failed");
  return "failed";
}
