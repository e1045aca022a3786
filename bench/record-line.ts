/** Records that wait in the line of a Redis, as the daemon stages, takes and settles them. What they say does not matter. */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { keysOf } from "../src/core/state/keys.ts";
import type { TakenState } from "../src/core/sync/run.ts";
import { stateOf, storesOf, takeFrom, type TestStores } from "../test/support/stores-of.ts";

/** For how long a record is not taken again whose process has died, ms. */
const HOLD_MS = 60_000;

export class RecordLine {
  readonly #redis: Redis;
  readonly #stores: TestStores;
  readonly #process = randomUUID();
  #changes = 0;

  constructor(redis: Redis, { prefix, hourMs }: { prefix: string; hourMs: number }) {
    this.#redis = redis;
    this.#stores = storesOf(redis, { keys: keysOf(prefix), hourMs, historyDays: 0 });
  }

  /** Each is a change of its record that is not on the service yet. */
  async changed(crmCodes: readonly string[]): Promise<void> {
    await Promise.all(
      crmCodes.map((crmCode) => {
        this.#changes += 1;
        const order = `${String(this.#changes).padStart(9, "0")} ${this.#process}`;
        return this.#stores.staged.stage(stateOf(crmCode, order));
      }),
    );
  }

  /** @returns how many of them may be sent now */
  async due(): Promise<number> {
    return (await this.#stores.line.due()).live;
  }

  /** @returns how many of them are not settled */
  async waiting(): Promise<number> {
    return this.#redis.zcard(this.#stores.keys.line("live"));
  }

  /** Takes the first one that is due. */
  async take(): Promise<TakenState | undefined> {
    const crmCode = await this.#stores.line.next("live", HOLD_MS);
    return crmCode === undefined
      ? undefined
      : takeFrom(this.#stores, crmCode, this.#process, HOLD_MS);
  }

  /** @param isSent false: it waits again, and is due at once. */
  async settle(state: TakenState, isSent: boolean): Promise<void> {
    const proven = { exists: true, uncertain: false, fingerprint: "sent", provedAt: Date.now() };
    const row = { ...state.row, ...proven, orders: state.orders };
    await this.#stores.staged.settle(state, { row: isSent ? row : "before", finished: isSent });
  }
}
