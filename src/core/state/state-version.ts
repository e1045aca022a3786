/**
 * The version of everything that crmsync keeps in Redis. It rises only when programs of another version could not
 * work with what this one writes: a new key or a new optional field does not need it, and programs of the same
 * state version run side by side. The inbox is not part of it, since other programs write there.
 */
import { crmsync } from "../../base/command.ts";
import { readAll, Store } from "./store.ts";

/** The state version of this program. */
export const STATE_VERSION = 2;

/** In place of a version: no program works on a state that was moved, also none of a former release. */
const MOVED = /moved at (.+)$/;

/** This program must not work on the state in Redis. Its message says what to do. */
export class StateVersionError extends Error {
  override readonly name = "StateVersionError";

  constructor(has: string) {
    const moved = MOVED.exec(has)?.[1];
    super(
      moved === undefined
        ? `the state in Redis has ${has}, this crmsync works with version ${STATE_VERSION}: install the release that wrote it, restore a backup of it, or set another QUEUE_PREFIX (docs/operate.md#upgrade-and-rollback). Nothing was changed in Redis`
        : `the state was moved from this Redis to another one at ${moved}, and what is here is older: let REDIS_URL lead there. To begin anew here: ${crmsync`redis reset --apply`}. Nothing was changed in Redis`,
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
    this.refuse(version);
    return version !== null;
  }

  /** For a process that starts, and a command that writes. @throws StateVersionError before anything is changed. */
  async require(): Promise<void> {
    if (!(await this.check())) await this.keep();
  }

  /** For a process that runs: writes the version into a Redis that was emptied. @throws StateVersionError */
  async keep(): Promise<void> {
    const { stateVersion } = this.keys;
    const known = await this.redis.hget(stateVersion, "version");
    if (known !== null) return this.refuse(known);
    const [, version] = await this.writes([
      ["HSETNX", stateVersion, "version", STATE_VERSION],
      ["HGET", stateVersion, "version"],
    ]);
    this.refuse(version as string | null);
  }

  /** As it is in Redis. */
  read(): Promise<string | null> {
    return this.redis.hget(this.keys.stateVersion, "version");
  }

  /** The version of what is here, also if it was moved; undefined: nothing is. */
  async beforeMove(): Promise<string | undefined> {
    const was = await this.redis.hget(this.keys.stateVersion, "was");
    return was ?? (await this.read()) ?? undefined;
  }

  /** From now on no process works on this state. */
  async move(): Promise<void> {
    const { stateVersion } = this.keys;
    const version = await this.beforeMove();
    const at = new Date(await this.time()).toISOString();
    await this.writes([["HSET", stateVersion, "was", version ?? "", "version", `moved at ${at}`]]);
  }

  /** Of a state that was brought here. */
  async set(version: string): Promise<void> {
    const { stateVersion } = this.keys;
    await this.writes([
      ["HDEL", stateVersion, "was"],
      ["HSET", stateVersion, "version", version],
    ]);
  }

  /** @throws StateVersionError for another version than ours; null: none. */
  refuse(version: string | null): void {
    if (version !== null && version !== String(STATE_VERSION)) {
      throw new StateVersionError(`version ${version}`);
    }
  }
}
