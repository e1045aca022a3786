/** Checks whether the state is sealed, and whether this configuration has the key of what is there. */
import { UnknownKey } from "../state/sealing.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";

const NAME = "encryption";

export async function checkEncryption({ config, keyring, sealing }: Stores): Promise<Check> {
  const missing = await keyring.missingKey();
  if (missing !== undefined) {
    const { message } = new UnknownKey(missing, sealing.keyIds);
    return fail(NAME, message, "No process starts until then: docs/runbook.md#the-state-key.");
  }
  return config.stateKeys.length === 0
    ? warn(
        NAME,
        "waiting payloads and dead letters are stored in Redis as plain text",
        "Set STATE_KEY_FILE (openssl rand -base64 32).",
      )
    : ok(NAME, "waiting payloads and dead letters are encrypted");
}
