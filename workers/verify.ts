/**
 * Verifies proofs that an earlier request may have overwritten since, and spot checks of writes (src/state/verifications.ts):
 * one GET each, in the lane bulk, by any one process. What the service does not have is staged and
 * sent again.
 */
import type { Permit } from "../src/quota/permit.ts";
import type { DueProof } from "../src/state/verifications.ts";
import { verifyProof } from "../src/sync/verify-proof.ts";
import { startPolling, type Polling } from "./poll.ts";
import { onceMore } from "./run-relation.ts";
import type { Runtime } from "./runtime.ts";
import type { ServiceAccess } from "./service-access.ts";

/** How often it is checked whether a proof is due, ms. */
const CHECK_MS = 1000;

/** A GET without a usable reply is repeated after this part of the hour window, … */
const PAUSES_PER_HOUR = 12;

/** … but not before this much longer than its request may take, ms. */
const PAUSE_MARGIN_MS = 10_000;

/** A proof for which no reply came in this many hour windows is left unverified. */
const GIVE_UP_AFTER_HOURS = 24;

/** In an outage, a verification makes the try that is due if no change has made it for this long, ms. */
const TRY_FREE_AFTER_MS = 10_000;

export function startVerifying(runtime: Runtime, access: ServiceAccess): Polling {
  return startPolling({
    everyMs: CHECK_MS,
    async step(signal) {
      while (await verifyNext(runtime, access, signal));
    },
    onError: (error) => runtime.rarely.warn({ err: error }, "verify.failed"),
  });
}

/** @returns whether a proof was verified, and another one may be due. */
async function verifyNext(
  runtime: Runtime,
  access: ServiceAccess,
  signal: AbortSignal,
): Promise<boolean> {
  const { clock, config, outage, verifications } = runtime;
  if (!(await verifications.anyDue(clock.now())) || !(await isItsTurn(runtime, access)))
    return false;
  const permit = await access.quota.acquire("bulk", signal);
  try {
    // Checked after the wait, which may have been long.
    if (!(await isItsTurn(runtime, access)) || (await outage.waitMs()) > 0) return false;
    const pauseMs = Math.max(
      config.QUOTA_HOUR_MS / PAUSES_PER_HOUR,
      config.SERVICE_TIMEOUT_MS + PAUSE_MARGIN_MS,
    );
    const due = await verifications.claim(clock.now(), Math.ceil(pauseMs));
    if (due === undefined) {
      await outage.notTried();
      return false;
    }
    return await verify(runtime, access, permit, due);
  } finally {
    // Has no effect on a permit that was used.
    permit.cancel();
  }
}

/**
 * Whether a verification may be sent. During an outage the one try is for changes. If no change waits, a
 * verification makes it: otherwise nothing would end the outage.
 */
async function isItsTurn({ clock, outage }: Runtime, access: ServiceAccess): Promise<boolean> {
  if (!(await access.isReady())) return false;
  const current = await outage.current();
  return current === undefined || clock.now() - current.nextTryAt > TRY_FREE_AFTER_MS;
}

/** @returns whether the service has told anything. */
async function verify(
  runtime: Runtime,
  access: ServiceAccess,
  permit: Permit,
  due: DueProof,
): Promise<boolean> {
  const { clock, config, keptFields, keyring, log, metrics, recordName, staged, verifications } =
    runtime;
  const reply = await access.send(permit, { kind: "fetch" }, due.crmCode);
  const fingerprintOf = await keyring.fingerprintOf(await keptFields.current());
  const found = verifyProof(reply, due.proof, fingerprintOf);
  if (found === "something_else" && (await verifications.withdraw(due))) {
    const record = recordName(due.crmCode);
    if (due.isSpotCheck) {
      metrics.relationsNotStored.inc();
      const written = verifications.written(due);
      if (written !== undefined) await staged.stage(onceMore(written));
    }
    log.warn({ record }, due.isSpotCheck ? "change.not_stored" : "change.overwritten");
  }
  const isTooOld = clock.now() - due.at > GIVE_UP_AFTER_HOURS * config.QUOTA_HOUR_MS;
  if (found === "same" || (found === "unknown" && isTooOld)) await verifications.finish(due);
  return found !== "unknown";
}
