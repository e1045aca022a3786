/** Checks whether this configuration and this program can work on the state in Redis. */
import { UnknownKey } from "../../core/state/sealing.ts";
import { STATE_VERSION, StateVersionError } from "../../core/state/state-version.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, warn, type Check } from "./check.ts";

/** Whether the state is sealed, and the key of what is there is known. */
export async function checkEncryption({ config, keyring, sealing }: Stores): Promise<Check> {
  const name = "encryption";
  const missing = await keyring.missingKey();
  if (missing !== undefined) {
    const { message } = new UnknownKey(missing, sealing.keyIds);
    return fail(name, message, "No process starts until then: docs/runbook.md#the-state-key.");
  }
  return config.stateKeys.length === 0
    ? warn(
        name,
        "waiting payloads and dead letters are stored in Redis as plain text",
        "Set STATE_KEY_FILE (openssl rand -base64 32).",
      )
    : ok(name, "waiting payloads and dead letters are encrypted");
}

/** After an upgrade or a rollback it may be another one. */
export async function checkStateVersion({ stateVersion }: Stores): Promise<Check> {
  const name = "state version";
  try {
    await stateVersion.check();
    return ok(name, `${STATE_VERSION}, as this release needs it`);
  } catch (error) {
    if (!(error instanceof StateVersionError)) throw error;
    return fail(name, error.message, "Until then, no command of this release changes anything.");
  }
}
