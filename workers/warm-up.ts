/**
 * Keeps the ledger warm: at the first start, and whenever Redis has lost it, the service is listed
 * before changes are sent. Any process may list; one at a time does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { listPages } from "../src/core/service/list-pages.ts";
import type { Reply } from "../src/core/service/reply.ts";
import { tokenName } from "../src/core/state/known-service.ts";
import type { WarmUp } from "../src/core/state/ledger.ts";
import { reasonAt } from "../src/core/sync/service-reply.ts";
import { retryDelay } from "../src/core/sync/retry.ts";
import { inSlices } from "../src/base/in-slices.ts";
import { rowOf, type LedgerRow } from "../src/core/sync/ledger-row.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";
import type { ServiceAccess } from "./service-access.ts";

/** After this many failures in a row, changes are sent without a warm ledger. */
const TRIES = 5;

/** After this part of the hour window the service is listed again, if an outage may have kept it from that. */
const OUTAGE_PART = 1 / 12;

/** What status shows of a listing that goes on without an end, and of an error that is not the service's. */
const ENDLESS = "the list repeats itself";
const OWN_ERROR = "an error of crmsync, see its log";

type WarmUpParts = Uses<
  | "clock"
  | "config"
  | "guards"
  | "keptFields"
  | "keyring"
  | "knownService"
  | "ledger"
  | "log"
  | "rarely"
  | "tenant"
>;

export function keepLedgerWarm(parts: WarmUpParts, access: ServiceAccess): Step {
  const { clock, config, guards, ledger, rarely } = parts;
  const owner = randomUUID();
  let failures = 0;
  return async (signal) => {
    const known = await ledger.unlessLost();
    if (known === undefined) rarely.error({}, "ledger.lost");
    const warmUp = known ?? (await ledger.warmUp());
    if (!isListDue(warmUp, config.QUOTA_HOUR_MS, clock.now()) || !(await access.mayAsk())) return;
    // Look first whether Redis went back: what is listed before this is noticed is forgotten again.
    await guards.checked(0);
    // A permit may be an hour away: no other process lists meanwhile.
    const result = await ledger.lease.whileHeld(owner, () =>
      listFrom(warmUp, parts, access, signal).catch(async (error: unknown) => {
        if (signal.aborted) throw error;
        rarely.warn({ err: error }, "ledger.warm_up_interrupted");
        await ledger.listingFailed(OWN_ERROR);
        return "failed" as const;
      }),
    );
    if (result === undefined) return;
    failures = result === "failed" ? failures + 1 : 0;
    if (result === "failed") await pauseOrContinueCold(parts, failures, signal);
  };
}

/**
 * An empty list is requested again once per hour window. So is a listing that was rejected or had no end: it
 * may take many requests to come so far again. After another failure, perhaps of a short outage, the
 * service is listed sooner.
 */
export function isListDue(warmUp: WarmUp, hourMs: number, now: number): boolean {
  const { state, coldSince, cursor, failure, listedAt = 0, relations } = warmUp;
  if (state === "cold") {
    const isLong = failure === ENDLESS || failure?.startsWith("rejected") === true;
    const pauseMs = isLong ? hourMs : hourMs * OUTAGE_PART;
    return now - (coldSince ?? 0) > pauseMs;
  }
  if (state !== "done" || cursor !== undefined) return true;
  return relations === 0 && now - listedAt > hourMs;
}

async function pauseOrContinueCold(
  { clock, config, ledger, log }: WarmUpParts,
  failures: number,
  signal: AbortSignal,
): Promise<void> {
  if (failures >= TRIES) {
    log.warn({}, "ledger.cold");
    await ledger.continueCold(clock.now());
    return;
  }
  await sleep(retryDelay(failures, config.RETRY_BASE_MS, Math.random), undefined, { signal });
}

/** Continues the listing where the last run ended. It is bound to the token that it begins with. */
async function listFrom(
  { cursor }: WarmUp,
  parts: WarmUpParts,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<"done" | "failed" | "again"> {
  const { clock, keptFields, keyring, ledger, log } = parts;
  const fingerprintOf = await keyring.fingerprintOf(await keptFields.current());
  const token = access.token();
  if (!(await isOfLedger(token, parts))) return "again";
  const service = {
    client: access.client,
    acquire: () => access.quota.acquire("live", signal),
    now: () => clock.now(),
    sending: { token },
  };
  type Result = "done" | "failed" | "again";
  const ended = await listPages<Result>(service, cursor, async (reply, asked) => {
    if (access.token() !== token) {
      await ledger.restartWarmUp();
      log.warn({}, "ledger.listing_token_changed");
      return { ends: "again" };
    }
    if (reply.kind !== "page")
      return { ends: await listingFailed(parts, access, reply, cursor !== undefined) };
    if (asked.isEndless) return { ends: await listingEndless(parts) };
    const rows: [string, LedgerRow][] = [];
    // A page of 5000 takes a tenth of a second: other work goes on in between.
    await inSlices(reply.relations, (relation) => {
      rows.push([relation.crmCode, rowOf(relation, clock.now(), fingerprintOf)]);
    });
    const about = { askedAt: asked.askedAt, fresh: asked.fresh.size, token: tokenName(token) };
    const isWritten = await ledger.writePage(rows, reply.nextCursor, asked.cursor, about);
    return isWritten ? "next" : { ends: "again" };
  });
  if (ended !== undefined) return ended;
  const { relations } = await ledger.warmUp();
  log.info({ relations }, "ledger.warm");
  return "done";
}

/** Whether the token still is of the ledger's tenant: another process may have begun with another one. */
async function isOfLedger(
  token: string,
  { knownService, tenant }: Uses<"knownService" | "tenant">,
): Promise<boolean> {
  const name = tokenName(token);
  const isKnown = await knownService.hasToken(name);
  // Redis has lost it.
  if (isKnown === undefined) await knownService.addToken(name);
  if (isKnown === false) tenant.forget();
  return isKnown !== false;
}

/** What was listed is believed. What was not may be there all the same: changes go on cold. */
async function listingEndless({ clock, ledger, log }: WarmUpParts): Promise<"done"> {
  const { relations } = await ledger.warmUp();
  log.error({ relations }, "ledger.list_endless");
  await ledger.restartWarmUp();
  await ledger.listingFailed(ENDLESS);
  await ledger.continueCold(clock.now());
  return "done";
}

async function listingFailed(
  { ledger, log }: WarmUpParts,
  access: ServiceAccess,
  reply: Exclude<Reply<"list">, { kind: "page" }>,
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
  const reason =
    reply.kind === "unavailable"
      ? reasonAt(reply, access.baseUrl)
      : `${reply.kind} ${reply.status}`;
  await ledger.listingFailed(reason);
  log.warn({ reply: reply.kind, reason }, "ledger.listing_failed");
  return "failed";
}
