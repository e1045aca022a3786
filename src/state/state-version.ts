/**
 * The version of everything that crmsync keeps in Redis. It rises only when programs of another version could not
 * work with what this one writes: a new key or a new optional field does not need it, and programs of the same
 * state version run side by side. The inbox is not part of it, since other programs write there.
 */
import { readAll, Store } from "./store.ts";

/** The state version of this program. */
export const STATE_VERSION = 1;

/** How often a running process checks the version, ms. */
export const CHECK_EVERY_MS = 1000;

/** This program must not work on the state in Redis. Its message says what to do. */
export class StateVersionError extends Error {
  override readonly name = "StateVersionError";

  constructor(has: string) {
    super(
      `the state in Redis has ${has}, this crmsync works with version ${STATE_VERSION}: install the release that wrote it, restore a backup of it, or set another QUEUE_PREFIX (docs/operate.md#upgrade-and-rollback). Nothing was changed in Redis`,
    );
  }
}

export class StateVersion extends Store {
  /**
   * Changes nothing.
   * @returns whether a version is there: without one, there is no state.
   * @throws StateVersionError
   */
  async check(): Promise<boolean> {
    const { deadLetters, heartbeats, ledger, stateVersion, warmUp } = this.keys;
    // Read the version last: a process writes it before it writes the other keys.
    const [others, version] = (await readAll(this.redis, [
      ["EXISTS", warmUp, heartbeats, ledger, deadLetters],
      ["HGET", stateVersion, "version"],
    ])) as [number, string | null];
    if (version === null && others > 0) throw new StateVersionError("no version");
    refuseOther(version);
    return version !== null;
  }

  /** For a process that starts, and a command that writes. @throws StateVersionError before anything is changed. */
  async require(): Promise<void> {
    if (!(await this.check())) await this.keep();
  }

  /** For a process that runs: writes the version into a Redis that was emptied. @throws StateVersionError */
  async keep(): Promise<void> {
    const { stateVersion } = this.keys;
    const [, version] = await this.writes([
      ["HSETNX", stateVersion, "version", STATE_VERSION],
      ["HGET", stateVersion, "version"],
    ]);
    refuseOther(version as string | null);
  }
}

function refuseOther(version: string | null): void {
  if (version !== null && version !== String(STATE_VERSION)) {
    throw new StateVersionError(`version ${version}`);
  }
}
