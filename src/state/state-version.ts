/**
 * The version of everything that crmsync keeps in Redis. It rises only when an older program could not
 * work with what a newer one writes: a new key or a new optional field does not need it, and programs of
 * the same state version run side by side. The inbox is not part of it, since other programs write there.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Heartbeats } from "./heartbeats.ts";
import type { Keys } from "./keys.ts";
import { migrateToRecords, whyNotToRecords } from "./migrate-to-records.ts";
import { Sealing } from "./sealing.ts";
import { Store } from "./store.ts";

/** Brings the state from one version to the next. */
export interface Migration {
  /** What it does, for the log. */
  readonly name: string;
  /** @returns why it must not begin, with what to do; asked before anything is changed. */
  whyNot?(redis: Redis, keys: Keys, sealing: Sealing): Promise<string | undefined>;
  /**
   * May run again after a crash, twice at once, and on an empty Redis: leaves the new form alone.
   * @returns how many values somebody had damaged.
   */
  run(redis: Redis, keys: Keys, sealing: Sealing): Promise<number | void>;
}

/** The first one leads from version 1 to 2. */
const MIGRATIONS: readonly Migration[] = [
  // Only older programs must be kept away: this one reads both forms.
  { name: "states are packed from now on; those that wait stay as they are", async run() {} },
  { name: "one record for each crmCode", whyNot: whyNotToRecords, run: migrateToRecords },
];

/** State that was written before it carried a version. */
const FIRST_VERSION = 1;

/** The state version of this program. */
export const STATE_VERSION = FIRST_VERSION + MIGRATIONS.length;

/** How often a running process checks the version; how often one that waits for a migration looks, ms. */
export const CHECK_EVERY_MS = 1000;

/** A process that started just before the migration has checked the version again by then, ms. */
const GRACE_MS = 3 * CHECK_EVERY_MS;

/** After this long without a sign of the process that migrates, another one continues, ms. */
const LEASE_MS = 10_000;

/** This program must not work on the state in Redis. Its message says what to do. */
export class StateVersionError extends Error {
  override readonly name = "StateVersionError";
}

/** How far a migration got. */
export interface MigrationReport {
  readonly from: number;
  readonly to: number;
  readonly step: string;
  /** How many values somebody had damaged, if any. */
  readonly damaged?: number;
}

interface Options {
  readonly sealing?: Sealing;
  readonly migrations?: readonly Migration[];
  readonly graceMs?: number;
}

interface Found {
  /** Undefined: nothing is there. */
  readonly version: number | undefined;
  /** Where a migration leads that has begun and not ended. */
  readonly target: number | undefined;
}

export class StateVersion extends Store {
  readonly #heartbeats: Heartbeats;
  readonly #sealing: Sealing;
  readonly #migrations: readonly Migration[];
  readonly #graceMs: number;

  constructor(redis: Redis, keys: Keys, heartbeats: Heartbeats, options: Options = {}) {
    super(redis, keys);
    this.#heartbeats = heartbeats;
    this.#sealing = options.sealing ?? new Sealing([]);
    this.#migrations = options.migrations ?? MIGRATIONS;
    this.#graceMs = options.graceMs ?? GRACE_MS;
  }

  /** The state version of this program. */
  get #ours(): number {
    return FIRST_VERSION + this.#migrations.length;
  }

  /**
   * For a process that starts: resolves once the state has this program's version. Migrates an older one;
   * of several processes one does, and the others wait.
   * @throws StateVersionError, without having changed anything.
   */
  async takeOver(report: (step: MigrationReport) => void = () => {}): Promise<void> {
    for (;;) {
      const found = await this.#find();
      this.#refuseNewer(found);
      if ((found.version ?? this.#ours) === this.#ours) {
        await this.write("HSETNX", this.keys.stateVersion, "version", this.#ours);
        return;
      }
      if (await this.#claim()) await this.#migrate(report);
      else await sleep(CHECK_EVERY_MS);
    }
  }

  /**
   * For a process that runs: writes the version into a Redis that was emptied.
   * @throws StateVersionError when the state has another version by now.
   */
  async keep(): Promise<void> {
    const { stateVersion } = this.keys;
    const [, fields] = await this.writes([
      ["HSETNX", stateVersion, "version", this.#ours],
      ["HMGET", stateVersion, "version", "target"],
    ]);
    this.#refuseOther(foundOf(fields as (string | null)[]));
  }

  /** @throws StateVersionError when a command of this program must not write. */
  async require(): Promise<void> {
    this.#refuseOther(await this.#find());
  }

  async #find(): Promise<Found> {
    const { stateVersion, warmUp, heartbeats } = this.keys;
    const found = foundOf(await this.redis.hmget(stateVersion, "version", "target"));
    if (found.version !== undefined) return found;
    // What every daemon has written, also before there were versions.
    const isOld = (await this.redis.exists(warmUp, heartbeats)) > 0;
    return isOld ? { ...found, version: FIRST_VERSION } : found;
  }

  async #set(field: keyof Found, version: number): Promise<void> {
    await this.write("HSET", this.keys.stateVersion, field, version);
  }

  #refuseNewer({ version = FIRST_VERSION, target = version }: Found): void {
    const newest = Math.max(version, target);
    if (newest <= this.#ours) return;
    throw new StateVersionError(
      `the state in Redis has version ${newest}, this crmsync works with version ${this.#ours}: install the release that wrote it, or a newer one, or restore a backup from before the upgrade (docs/operate.md#upgrade-and-rollback). Nothing was changed in Redis`,
    );
  }

  #refuseOther(found: Found): void {
    this.#refuseNewer(found);
    const { version = this.#ours } = found;
    if (version >= this.#ours) return;
    throw new StateVersionError(
      `the state in Redis has version ${version}, this crmsync works with version ${this.#ours}: start the daemon of this release, which migrates it (docs/operate.md#upgrade-and-rollback)`,
    );
  }

  /** Whether this process may migrate now. @throws StateVersionError while older programs run. */
  async #claim(): Promise<boolean> {
    const running = await this.#heartbeats.running();
    const older = running.filter(({ stateVersion = FIRST_VERSION }) => stateVersion < this.#ours);
    if (older.length > 0) {
      const names = older.map(({ id, version }) => `${id} (${version})`).join(", ");
      throw new StateVersionError(
        `the state in Redis must be migrated to version ${this.#ours}, and processes of an older release still run: ${names}. Stop them, then start this one again; one that was killed counts as running for up to 45 seconds`,
      );
    }
    return this.claimFor(this.keys.stateMigration, LEASE_MS);
  }

  async #migrate(report: (step: MigrationReport) => void): Promise<void> {
    const renew = () => this.redis.pexpire(this.keys.stateMigration, LEASE_MS).catch(() => {});
    const renewal = setInterval(() => void renew(), LEASE_MS / 4);
    try {
      // Another process may have migrated before this one had the lock.
      const { version = FIRST_VERSION } = await this.#find();
      const steps = this.#migrations.slice(version - FIRST_VERSION);
      for (const step of steps) {
        const why = await step.whyNot?.(this.redis, this.keys, this.#sealing);
        if (why !== undefined) throw new StateVersionError(why);
      }
      if (version < this.#ours) await this.#set("target", this.#ours); // no older program starts now
      await sleep(version < this.#ours ? this.#graceMs : 0);
      for (const [index, step] of steps.entries()) {
        const from = version + index;
        const damaged = await step.run(this.redis, this.keys, this.#sealing);
        await this.#set("version", from + 1);
        report({ from, to: from + 1, step: step.name, ...(damaged && { damaged }) });
      }
      await this.redis.hdel(this.keys.stateVersion, "target");
    } finally {
      clearInterval(renewal);
      await this.redis.del(this.keys.stateMigration);
    }
  }
}

const foundOf = ([version, target]: readonly (string | null | undefined)[]): Found => ({
  version: version ? Number(version) : undefined,
  target: target ? Number(target) : undefined,
});
