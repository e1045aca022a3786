/**
 * Seals what is in Redis with the first key of STATE_KEY: once per start and until it is done, and again
 * when something cannot be opened.
 */
import { randomUUID } from "node:crypto";
import { backoffMs } from "../src/core/event/backoff.ts";
import { sealedIn, SEALED_FOR } from "../src/core/event/inbox.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";
import { describeRedis, isLocal, parseRedisUrl } from "../src/base/redis-url.ts";

/** Pauses between two passes, ms: doubled after each one that has found no less than the one before. */
const PAUSES = { firstMs: 5000, longestMs: 600_000 };

export function keepSealed({ inbox, log, resealing }: Uses<"inbox" | "log" | "resealing">): Step {
  const owner = randomUUID();
  let foundBefore = Number.POSITIVE_INFINITY;
  let passes = 0;
  let nextAt = 0;
  return async () => {
    const mayBegin = resealing.isDue && performance.now() >= nextAt;
    if (!mayBegin || !(await resealing.lease.claim(owner))) return;
    const jobs = [{ queue: inbox.queue, about: SEALED_FOR, sealedIn }];
    const pass = await resealing.pass(jobs, async () => void (await resealing.lease.claim(owner)));
    await resealing.report(pass);
    if (pass.found === 0) {
      foundBefore = Number.POSITIVE_INFINITY;
      return;
    }
    log.info({ values: pass.found, missing: pass.missing }, "state.sealed_again");
    // What is left may need a key that only a restart brings.
    passes = pass.found < foundBefore ? 1 : passes + 1;
    foundBefore = pass.found;
    nextAt = performance.now() + backoffMs(passes, PAUSES);
  };
}

/** Makes sure that this process can open what is in Redis. @throws UnknownKey */
export async function openKeyring({
  config,
  keyring,
  ledger,
  log,
  resealing,
  sealing,
}: Uses<"config" | "keyring" | "ledger" | "log" | "resealing" | "sealing">): Promise<void> {
  // Until the first pass has ended, some values may still need the old key.
  if (sealing.keyIds.length > 1) await resealing.report({ found: 1, missing: {} });
  const { isNew } = await keyring.open();
  // A crash in between costs one request for each record that is sent again, and nothing else.
  if (isNew && (await ledger.forgetAll()) > 0) log.info({}, "state.key_new");
  const url = config.REDIS_URL === undefined ? undefined : parseRedisUrl(config.REDIS_URL);
  if (sealing.keyId === undefined && url !== undefined && !isLocal(url)) {
    log.warn({ host: describeRedis(url) }, "state.not_sealed");
  }
}
