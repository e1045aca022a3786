/**
 * The pause of the lane bulk by an operator: no process takes a bulk change to send it (lua/take.lua)
 * until the lane is resumed. It is in Redis, so it survives every restart.
 */
import { jsonReading, readOne, type Reading } from "../ops/redis-reading.ts";
import { Store } from "./store.ts";

export interface BulkPause {
  /** ms */
  readonly since: number;
  /** As in the audit trail. */
  readonly by: string;
  /** The operator's words. */
  readonly reason?: string | undefined;
}

/** What the waiting loops of all processes hear when the lane was paused (job-notifier.ts). */
const PAUSED = "paused";

export class BulkPauses extends Store {
  /** Undefined while the lane is not paused. */
  reading(): Reading<BulkPause | undefined> {
    return jsonReading("get", this.keys.bulkPause);
  }

  current(): Promise<BulkPause | undefined> {
    return readOne(this.redis, this.reading());
  }

  /** @returns false when it was paused already; that pause stays as it is. */
  async begin(pause: BulkPause): Promise<boolean> {
    const { bulkPause, jobsAdded } = this.keys;
    const begun = (await this.write("SET", bulkPause, JSON.stringify(pause), "NX")) === "OK";
    // A loop that waits for a permit gives up; without this it would notice when it has one.
    if (begun) await this.redis.publish(jobsAdded, PAUSED);
    return begun;
  }

  /** @returns false when it was not paused. */
  async end(): Promise<boolean> {
    const ended = (await this.redis.del(this.keys.bulkPause)) === 1;
    if (ended) await this.redis.publish(this.keys.jobsAdded, "bulk");
    return ended;
  }
}
