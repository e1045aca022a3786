/**
 * What is learned from the service before the first change is sent: the tenant's value lists, and
 * which relations it holds already (the ledger's warm-up). Any process may do it, one does.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ListReply, Relation } from "../src/service/reply.ts";
import type { LedgerRow } from "../src/state/ledger-row.ts";
import { retryDelay } from "../src/sync/retry-delay.ts";
import { rowOf } from "../src/sync/settle-reply.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** After so many failures in a row the sync goes on without knowing what is there. */
const WARM_UP_TRIES = 5;

/** How often a process looks whether another one has finished warming, ms. */
const LOOK_MS = 500;

export async function prepare(
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<void> {
  const owner = randomUUID();
  let failures = 0;
  while (!signal.aborted) {
    try {
      const { state } = await runtime.ledger.warmUp();
      if (state === "done" || state === "cold") return;
      if ((await access.isStopped()) || !(await runtime.ledger.claimWarmUp(owner))) {
        await sleep(LOOK_MS, undefined, { signal });
        continue;
      }
      const result = await warmUp(runtime, access, signal);
      if (result === "failed") failures += 1;
      if (failures >= WARM_UP_TRIES) {
        runtime.log.warn("ledger.cold: listing kept failing; creates may cost a second request");
        await runtime.ledger.goOnCold();
      }
      await runtime.ledger.releaseWarmUp();
      if (result === "failed") {
        await sleep(retryDelay(failures, runtime.config.RETRY_BASE_MS, Math.random), undefined, {
          signal,
        });
      }
    } catch (error) {
      if (signal.aborted) return;
      runtime.throttle("prepare", (held) =>
        runtime.log.warn({ err: error, held }, "prepare.put_off"),
      );
      await sleep(LOOK_MS);
    }
  }
}

/** Lists on from where the last run got to. */
async function warmUp(
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<"done" | "failed" | "again"> {
  const { ledger, log } = runtime;
  const { cursor } = await ledger.warmUp();
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
    await access.refused(reply);
    return "again";
  }
  // A cursor may have grown old: from the start then.
  if (reply.kind === "rejected" && resumed) await runtime.ledger.restartWarmUp();
  runtime.log.warn({ reply: reply.kind }, "ledger.listing_failed");
  return "failed";
}

function rowsOf(relation: Relation): [string, LedgerRow][] {
  const { crmCode } = relation;
  return typeof crmCode === "string" ? [[crmCode, rowOf(relation, Date.now())]] : [];
}
