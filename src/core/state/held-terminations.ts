/**
 * Changes that wait for a person: terminations beyond a limit (termination-guard.ts) or of a record that did not write
 * the relation, and updates that empty fields (emptying-guard.ts). Each stays the state of its record until a person
 * releases or drops it, or a newer event of the record replaces it.
 */
import { reading, type Reading } from "../../base/redis-reading.ts";
import type { Lane } from "../event/lane.ts";
import { drop, release } from "../sync/person.ts";
import { timeOfOrder } from "../sync/known.ts";
import type { HeldWhy, KnownRecord } from "../sync/record.ts";
import { objectIn, readAll, type Call } from "./store.ts";
import { OfRecords, type Place } from "./record-store.ts";
import { scanSorted } from "./scan.ts";
import { DamagedValue } from "./sealing.ts";
import { openEvents } from "./staged-values.ts";

export interface HeldTermination {
  readonly crmCode: string;
  /** Of the state that is held: a newer event of the record makes another one. */
  readonly version: number;
  /** ms */
  readonly heldAt: number;
  readonly why: HeldWhy;
  /** Fields that it would empty. */
  readonly fields: readonly string[];
  /** When the change happened in the CRM, ms. */
  readonly time: number;
  readonly lane: Lane;
  /** The event, serialised. */
  readonly event: string;
}

/** Stands for an event that cannot be opened, so that one record does not hide all others. */
const DAMAGED = JSON.stringify({
  type: "an event that cannot be opened:",
  subject: "somebody has changed it in Redis",
});

/** A newer change of the record may be held meanwhile. @param version undefined: no matter which. */
const isSame = ({ staged }: KnownRecord, version: number | undefined): boolean =>
  version === undefined || staged?.version === version;

/** Records read in one round trip. */
const PAGE = 200;

/** Of more of them it is not counted why they are held. */
const MOST_COUNTED = 500;

export class HeldTerminations extends OfRecords {
  count(): Reading<number> {
    return reading(["zcard", this.keys.heldTerminations], Number);
  }

  /** Since when the first of them is held, ms. */
  since(): Reading<number | undefined> {
    return reading(["zrange", this.keys.heldTerminations, 0, 0, "WITHSCORES"], ([, at]: string[]) =>
      at === undefined ? undefined : Number(at),
    );
  }

  /** Why the oldest of them are held, and how many for that. @param redis the connection to read over */
  async reasons(redis = this.redis): Promise<Partial<Record<HeldWhy, number>>> {
    const crmCodes = await redis.zrange(this.keys.heldTerminations, "0", String(MOST_COUNTED - 1));
    const reads = crmCodes.map((code) => ["HGET", this.keys.staged(code), "place"] as const);
    const counts: Partial<Record<HeldWhy, number>> = {};
    for (const text of (await readAll(redis, reads)) as (string | null)[]) {
      const why = (objectIn(text ?? "") as Partial<Place> | undefined)?.held;
      if (why !== undefined) counts[why] = (counts[why] ?? 0) + 1;
    }
    return counts;
  }

  /** The records among these whose termination is held. */
  async among(crmCodes: readonly string[]): Promise<string[]> {
    if (crmCodes.length === 0) return [];
    const scores = await this.redis.zmscore(this.keys.heldTerminations, ...crmCodes);
    return crmCodes.filter((_, n) => scores[n] !== null);
  }

  /** All of them, in no order. */
  async *all(): AsyncGenerator<HeldTermination> {
    for await (const crmCodes of this.crmCodes()) {
      const found = await Promise.all(crmCodes.map((crmCode) => this.find(crmCode)));
      yield* found.filter((one) => one !== undefined);
    }
  }

  /** The crmCodes of all held terminations, a page at a time, in no order. */
  async *crmCodes(): AsyncGenerator<string[]> {
    for await (const page of scanSorted(this.redis, this.keys.heldTerminations, PAGE)) {
      yield page.map(([crmCode]) => crmCode);
    }
  }

  /** Held terminations from this position on, oldest first; fewer when a person has decided one meanwhile. */
  async page(from: number, count: number): Promise<HeldTermination[]> {
    const key = this.keys.heldTerminations;
    const crmCodes = await this.redis.zrange(key, String(from), String(from + count - 1));
    const found = await Promise.all(crmCodes.map((crmCode) => this.find(crmCode)));
    return found.filter((one) => one !== undefined);
  }

  async find(crmCode: string): Promise<HeldTermination | undefined> {
    const { staged } = await this.records.read(crmCode);
    if (staged?.held === undefined) return undefined;
    const { at: heldAt, fields = [], why } = staged.held;
    const { newestEvent } = await openEvents(staged, crmCode, this.sealing).catch(
      (error: unknown) => {
        if (error instanceof DamagedValue) return { newestEvent: DAMAGED };
        throw error;
      },
    );
    return {
      crmCode,
      version: staged.version,
      heldAt,
      why,
      fields,
      // May be that of a redrive.
      time: timeOfOrder(staged.status.order),
      lane: staged.lane,
      event: newestEvent,
    };
  }

  /**
   * Lets a held change be sent.
   * @param act keeps the act for the audit trail if it is done: another operator may be faster.
   * @param seen the version that the person has seen
   * @returns its lane; undefined when it is not held any more.
   */
  release(crmCode: string, act: readonly Call[] = [], seen?: number): Promise<Lane | undefined> {
    return this.records.change(crmCode, [], (read) => {
      const record = isSame(read, seen) ? release(read, read) : undefined;
      const lane = record?.staged?.lane;
      const told = lane && [...act, ["PUBLISH", this.keys.jobsAdded, lane] as const];
      return { record, outcome: lane, calls: told };
    });
  }

  /** @param act as for `release`. @returns false when it is not held any more. */
  drop(crmCode: string, act: readonly Call[] = [], seen?: number): Promise<boolean> {
    return this.records.change(crmCode, [], (read) => {
      const record = isSame(read, seen) ? drop(read) : undefined;
      return { record, outcome: record !== undefined, calls: record && act };
    });
  }
}
