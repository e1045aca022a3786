/** Seals what is in Redis with the first key of STATE_KEY, once per start and until it is done. */
import { randomUUID } from "node:crypto";
import { sealedIn, SEALED_FOR } from "../src/event/inbox.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** Between two passes, while the last one found something, ms. */
const AGAIN_MS = 5000;

export function keepSealed(runtime: Runtime): Polling {
  const { inbox, log, resealing, sealing, throttle } = runtime;
  const owner = randomUUID();
  let isDone = sealing.keyId === undefined;
  return startPolling({
    everyMs: AGAIN_MS,
    async step() {
      if (isDone || !(await resealing.claim(owner))) return;
      const jobs = [{ queue: inbox.queue, about: SEALED_FOR, sealedIn }];
      const pass = await resealing.pass(jobs, async () => void (await resealing.claim(owner)));
      await resealing.report(pass);
      if (pass.found > 0) {
        log.info({ values: pass.found, missing: pass.missing }, "state.sealed_again");
        return;
      }
      isDone = true;
    },
    onError: (error) =>
      throttle("reseal", (suppressed) =>
        log.warn({ err: error, suppressed }, "state.sealing_failed"),
      ),
  });
}
