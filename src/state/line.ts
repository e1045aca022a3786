/** The line: which records are to be sent, each lane in its order. `StagedStates.next` takes the first that is due. */
import { scriptReading, type Reading } from "../ops/redis-reading.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { readAll } from "./commit.ts";
import { Store } from "./store.ts";

/** How many records of each kind stand in the lines. */
export interface LineCounts {
  /** They may be sent now. */
  readonly due: Readonly<Record<Lane, number>>;
  /** A worker has taken them. */
  readonly inFlight: number;
  /** They wait for a retry, or until a late request can have arrived. */
  readonly later: number;
  /** When the last of them are due, ms; 0: none waits. */
  readonly lastDueAt: Readonly<Record<Lane, number>>;
}

export class Line extends Store {
  /** How many records may be sent now; none of the lane bulk while it is paused. @param now Redis' time, ms */
  async due(now: number): Promise<Record<Lane, number>> {
    const { bulkPause, line } = this.keys;
    const [live, bulk, isPaused] = (await readAll(this.redis, [
      ["ZCOUNT", line("live"), "-inf", now],
      ["ZCOUNT", line("bulk"), "-inf", now],
      ["EXISTS", bulkPause],
    ])) as [number, number, number];
    return { live, bulk: isPaused === 1 ? 0 : bulk };
  }

  /** How many records are sent before this one. */
  async aheadOf(crmCode: string, lane: Lane): Promise<Record<Lane, number>> {
    const { line } = this.keys;
    const [rank, live] = (await readAll(this.redis, [
      ["ZRANK", line(lane), crmCode],
      ["ZCARD", line("live")],
    ])) as [number | null, number];
    return lane === "live" ? { live: rank ?? 0, bulk: 0 } : { live, bulk: rank ?? 0 };
  }

  /** From when on a record may be sent, ms; undefined when it is in no line. */
  async dueAt(crmCode: string): Promise<number | undefined> {
    const scores = await Promise.all(
      LANES.map((lane) => this.redis.zscore(this.keys.line(lane), crmCode)),
    );
    const due = scores.find((score) => score !== null);
    return due === undefined ? undefined : Number(due);
  }

  counts(): Reading<LineCounts> {
    const { inFlight, line } = this.keys;
    const file = new URL("./lua/count-line.lua", import.meta.url);
    const keys = [...LANES.map(line), inFlight];
    return scriptReading(
      file,
      keys,
      [],
      ([live, bulk, taken, later, lastLive, lastBulk]: string[]) => ({
        due: { live: Number(live), bulk: Number(bulk) },
        inFlight: Number(taken),
        later: Number(later),
        lastDueAt: { live: Number(lastLive), bulk: Number(lastBulk) },
      }),
    );
  }
}
