/**
 * Keeps the ledger warm: at the first start, and whenever Redis has lost it, what the service
 * holds is listed before changes are sent. Any process may do it, one does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ListReply, Relation } from "../src/service/reply.ts";
import type { LedgerRow } from "../src/sync/ledger-row.ts";
import type { WarmUp } from "../src/state/ledger.ts";
import { retryDelay } from "../src/sync/retry-delay.ts";
import { rowOf } from "../src/sync/settle-reply.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** After so many failures in a row the sync goes on without knowing what is there. */
const TRIES = 5;

/** How often the ledger is looked at, ms: how long a lost one may go unnoticed. */
const LOOK_MS = 500;

export async function keepLedgerWarm(
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<void> {
  const { ledger, log, throttle, config } = runtime;
  const owner = randomUUID();
  let failures = 0;
  while (!signal.aborted) {
    try {
      const warmUp = await ledger.warmUp();
      if (isDue(warmUp, config.QUOTA_HOUR_MS) && (await mayWarm(runtime, access, owner))) {
        const result = await listFrom(warmUp, runtime, access, signal);
        await ledger.releaseWarmUp();
        failures = result === "failed" ? failures + 1 : 0;
        if (result === "failed") await putOff(runtime, failures, signal);
      }
      await sleep(LOOK_MS, undefined, { signal });
    } catch (error) {
      if (signal.aborted) return;
      throttle("warm-up", (held) => log.warn({ err: error, held }, "ledger.warm_up_interrupted"));
      await sleep(LOOK_MS);
    }
  }
}

/** A cold ledger is tried again once per hour window. */
function isDue({ state, coldSince }: WarmUp, hourMs: number): boolean {
  if (state === "cold") return Date.now() - (coldSince ?? 0) > hourMs;
  return state !== "done";
}

async function mayWarm(runtime: Runtime, access: ServiceAccess, owner: string): Promise<boolean> {
  return !(await access.isDenied()) && (await runtime.ledger.claimWarmUp(owner));
}

async function putOff(runtime: Runtime, failures: number, signal: AbortSignal): Promise<void> {
  if (failures >= TRIES) {
    runtime.log.warn({}, "ledger.cold");
    await runtime.ledger.goOnCold(Date.now());
    return;
  }
  const delay = retryDelay(failures, runtime.config.RETRY_BASE_MS, Math.random);
  await sleep(delay, undefined, { signal });
}

/** Lists on from where the last run got to. */
async function listFrom(
  { cursor }: WarmUp,
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<"done" | "failed" | "again"> {
  const { ledger, log } = runtime;
  const acquire = () => access.quota.acquire("live", signal);
  for await (const reply of access.client.list(acquire, cursor === undefined ? {} : { cursor })) {
    if (reply.kind !== "page") return listingFailed(runtime, access, reply, cursor !== undefined);
    await ledger.writePage(reply.relations.flatMap(rowsOf), reply.nextCursor);
  }
  const { relations } = await ledger.warmUp();
  log.info({ relations }, "ledger.warm");
  return "done";
}

async function listingFailed(
  runtime: Runtime,
  access: ServiceAccess,
  reply: Exclude<ListReply, { kind: "page" }>,
  resumed: boolean,
): Promise<"failed" | "again"> {
  // The pause that these bring is shared: the next permit waits it out.
  if (reply.kind === "throttled") return "again";
  if (reply.kind === "denied") {
    await access.denied(reply);
    return "again";
  }
  // A cursor may have grown old: from the start then.
  if (reply.kind === "rejected" && resumed) await runtime.ledger.restartWarmUp();
  const reason = reply.kind === "unavailable" ? reply.reason : `${reply.kind} ${reply.status}`;
  await runtime.ledger.listingFailed(reason);
  runtime.log.warn({ reply: reply.kind, reason }, "ledger.listing_failed");
  return "failed";
}

function rowsOf(relation: Relation): [string, LedgerRow][] {
  const { crmCode } = relation;
  return typeof crmCode === "string" ? [[crmCode, rowOf(relation, Date.now())]] : [];
}
