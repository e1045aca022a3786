/** Makes sure that this process can open what is in Redis, before it works on it. */
import { describeRedis, isLocal, parseRedisUrl } from "../src/ops/redis-url.ts";
import type { Runtime } from "./runtime.ts";

/** @throws UnknownKey */
export async function openKeyring(runtime: Runtime): Promise<void> {
  const { config, keyring, ledger, log, resealing, sealing } = runtime;
  // Before the first pass has ended, nobody knows that the old key is not needed any more.
  if (sealing.keyIds.length > 1) await resealing.report({ found: 1, missing: {} });
  const { isNew } = await keyring.open();
  // A crash in between costs one request for each record that is sent again, and nothing else.
  if (isNew && (await ledger.forgetAll()) > 0) log.info({}, "state.key_new");
  const url = config.REDIS_URL === undefined ? undefined : parseRedisUrl(config.REDIS_URL);
  if (sealing.keyId === undefined && url !== undefined && !isLocal(url)) {
    log.warn({ host: describeRedis(url) }, "state.not_sealed");
  }
}
