/** Makes sure that this process can open what is in Redis, before it works on it. */
import { isLoopback } from "../src/ops/loopback.ts";
import type { Runtime } from "./runtime.ts";

/** @throws UnknownKey */
export async function openKeyring(runtime: Runtime): Promise<void> {
  const { keyring, ledger, log, redis, sealing } = runtime;
  const { isNew } = await keyring.open();
  // A crash in between costs one request for each record that is sent again, and nothing else.
  if (isNew && (await ledger.forgetAll()) > 0) log.info({}, "state.key_new");
  const { host = "", path } = redis.options;
  if (sealing.keyId === undefined && path === undefined && !isLoopback(host)) {
    log.warn({ host }, "state.not_sealed");
  }
}
