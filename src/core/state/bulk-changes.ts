/** The changes that wait in the lane bulk, and how they are dropped: a few at once, so that Redis serves others. */
import { cancel } from "../sync/person.ts";
import { digestOf } from "./keys.ts";
import { Line } from "./line.ts";
import { OfRecords, unchanged } from "./record-store.ts";
import { Store } from "./store.ts";
import { jsonReading, readOne, type Reading } from "../../base/redis-reading.ts";

/** Records that are changed at the same time. */
const BATCH = 25;

export interface Dropped {
  /** Changes that are under way, and end as they would. */
  readonly busy: number;
  readonly crmCodes: readonly string[];
}

export class BulkChanges extends OfRecords {
  /** crmCodes of all that may wait there, a page at a time; what is dropped meanwhile does no harm. */
  waiting(): AsyncGenerator<string[]> {
    return new Line(this.redis, this.keys).codes(["bulk"]);
  }

  /**
   * Drops the bulk changes of these records. The ledger keeps what was proven of them, and their
   * events may be sent again.
   * @param last leaves alone what was staged with a higher number.
   */
  async drop(
    crmCodes: readonly string[],
    last: number = Number.MAX_SAFE_INTEGER,
  ): Promise<Dropped> {
    const crmCodesDropped: string[] = [];
    let busy = 0;
    for (let from = 0; from < crmCodes.length; from += BATCH) {
      const batch = crmCodes.slice(from, from + BATCH);
      const ends = await Promise.all(batch.map((crmCode) => this.#cancel(crmCode, last)));
      crmCodesDropped.push(...batch.filter((_, index) => ends[index] === "dropped"));
      busy += ends.filter((end) => end === "busy").length;
    }
    return { busy, crmCodes: crmCodesDropped };
  }

  async #cancel(crmCode: string, last: number): Promise<"busy" | "kept" | "dropped"> {
    const { bulkCancelled, seen } = this.keys;
    const end = await this.records.change<"busy" | "kept" | "dropped">(crmCode, [], (read) => {
      const cancelled = cancel(read, last, read);
      if (cancelled.kind !== "dropped") return unchanged(cancelled.kind);
      const { eventKeys, record } = cancelled;
      // Its events are no longer known: the same import may be sent again.
      const forgotten = eventKeys.map((key) => ["DEL", seen(digestOf(key))] as const);
      return { record, outcome: "dropped", calls: [...forgotten, ["INCR", bulkCancelled]] };
    });
    if (end === "dropped")
      await this.records.history.note({ crmCode }, { kind: "act", act: "bulk.cancel" });
    return end;
  }

  /** How many were dropped since the last call of any process. */
  async takeCount(): Promise<number> {
    return Number((await this.redis.getdel(this.keys.bulkCancelled)) ?? 0);
  }
}

export interface BulkPause {
  /** ms */
  readonly since: number;
  /** As in the audit trail. */
  readonly by: string;
  /** The operator's words. */
  readonly reason?: string | undefined;
}

/** What the waiting loops of all processes hear when the lane was paused (line.ts). */
const PAUSED = "paused";

/**
 * The pause of the lane bulk by an operator: no process takes a bulk change to send it (lua/next.lua)
 * until the lane is resumed. It is in Redis, so it survives every restart.
 */
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
