/** Checks whether this program may work on the state in Redis: after an upgrade or a rollback it may not. */
import { STATE_VERSION, StateVersionError } from "../state/state-version.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, type Check } from "./check.ts";

const NAME = "state version";

export async function checkStateVersion({ stateVersion }: Stores): Promise<Check> {
  try {
    await stateVersion.check();
    return ok(NAME, `${STATE_VERSION}, as this release needs it`);
  } catch (error) {
    if (!(error instanceof StateVersionError)) throw error;
    return fail(NAME, error.message, "Until then, no command of this release changes anything.");
  }
}
