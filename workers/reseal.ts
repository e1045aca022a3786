/** Seals what is in Redis with the first key of STATE_KEY, once per start and until it is done. */
import { randomUUID } from "node:crypto";
import { sealedIn, SEALED_FOR } from "../src/event/inbox.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** Between two passes while there is less to seal each time; else twice as long each time, ms. */
const AGAIN_MS = 5000;
const LONGEST_PAUSE_MS = 600_000;

export function keepSealed(runtime: Runtime): Polling {
  const { inbox, log, resealing, sealing, throttle } = runtime;
  const owner = randomUUID();
  let isDone = sealing.keyId === undefined;
  let foundBefore = Number.POSITIVE_INFINITY;
  let pauseMs = AGAIN_MS;
  let nextAt = 0;
  return startPolling({
    everyMs: AGAIN_MS,
    async step() {
      if (isDone || performance.now() < nextAt || !(await resealing.claim(owner))) return;
      const jobs = [{ queue: inbox.queue, about: SEALED_FOR, sealedIn }];
      const pass = await resealing.pass(jobs, async () => void (await resealing.claim(owner)));
      await resealing.report(pass);
      isDone = pass.found === 0;
      if (isDone) return;
      log.info({ values: pass.found, missing: pass.missing }, "state.sealed_again");
      // What is left may need a key that only a restart brings.
      pauseMs = pass.found < foundBefore ? AGAIN_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
      foundBefore = pass.found;
      nextAt = performance.now() + pauseMs;
    },
    onError: (error) =>
      throttle("reseal", (suppressed) =>
        log.warn({ err: error, suppressed }, "state.sealing_failed"),
      ),
  });
}
