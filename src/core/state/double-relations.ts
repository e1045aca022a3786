/**
 * Records of the CRM that have two relations: their crmCode was made otherwise before, by another mapping or of another
 * value. Found when the second one is staged (staged-state.ts); the newest hundred are kept until one of the two ends.
 */
import { reading, type Reading } from "../../base/redis-reading.ts";
import type { Call } from "./store.ts";
import type { Keys } from "./keys.ts";
import { OfRecords, type ReadRecord } from "./record-store.ts";

/** At most so many are named. */
export const MOST_DOUBLES = 100;

type Pair = readonly [older: string, newer: string];

/** Notes that a record with the crmCode `older` is staged under another one. */
export const callsOfDouble = (keys: Keys, [older, newer]: Pair, now: number): Call[] => [
  ["ZREM", keys.doubles, JSON.stringify([newer, older])],
  ["ZADD", keys.doubles, now, JSON.stringify([older, newer])],
  ["ZREMRANGEBYRANK", keys.doubles, 0, -MOST_DOUBLES - 1],
];

export class DoubleRelations extends OfRecords {
  /** The newest first. */
  reading(): Reading<readonly Pair[]> {
    return reading(["zrange", this.keys.doubles, 0, -1, "REV"], (texts: string[]) =>
      texts.map((text) => JSON.parse(text) as Pair),
    );
  }

  /** Forgets those of which one relation has ended. */
  async forgetEnded(): Promise<void> {
    for (const text of await this.redis.zrange(this.keys.doubles, "0", "-1")) {
      const pair = JSON.parse(text) as Pair;
      const both = await Promise.all(pair.map((crmCode) => this.records.read(crmCode)));
      if (both.some(hasEnded)) await this.redis.zrem(this.keys.doubles, text);
    }
  }
}

const hasEnded = ({ erasedText, row, staged, warm }: ReadRecord): boolean =>
  staged === undefined &&
  (erasedText !== "" || (row === undefined ? warm : row.terminated || row.exists === false));
