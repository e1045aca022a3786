/** What is shared of the sending of what owners must correct, by QUALITY_CRON and by hand. */
import { jsonReading, type Reading } from "../../base/redis-reading.ts";
import { Store } from "./store.ts";

/** After this long without a sign of its process, another one may send, ms. */
const LEASE_MS = 15_000;

/** What was sent in a run is known for so long: until the next one at least, s. */
const RUN_KEPT_S = 14 * 86_400;

export interface QualitySchedule {
  /** QUALITY_CRON: with another one, what was due before is not due any more. */
  readonly cron: string;
  /** Until when all runs are done, ms. */
  readonly done: number;
  /** Of the run that is due. */
  readonly failure?: {
    /** When it was due, and when it failed last, ms. */
    readonly due: number;
    readonly at: number;
    readonly tries: number;
    readonly why: string;
  };
}

export class QualityRuns extends Store {
  readonly lease = this.leaseFor(this.keys.qualityOwner, LEASE_MS);

  /** Undefined before the first one. */
  schedule(): Reading<QualitySchedule | undefined> {
    return jsonReading("get", this.keys.qualitySchedule);
  }

  async keep(schedule: QualitySchedule): Promise<void> {
    await this.write("SET", this.keys.qualitySchedule, JSON.stringify(schedule));
  }

  /** Which messages were sent in the run of this name. */
  run(name: string) {
    const key = this.keys.qualitySent(name);
    return {
      sent: async () => new Set(await this.redis.smembers(key)),
      note: (message: string) =>
        this.writes([
          ["SADD", key, message],
          ["EXPIRE", key, RUN_KEPT_S],
        ]),
    };
  }
}
