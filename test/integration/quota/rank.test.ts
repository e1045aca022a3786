/** The order of service in Redis is the pure one of src/quota/rank.ts, which the simulator uses. */
import * as fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { takeTimeFrom } from "../../../src/ops/redis-script.ts";
import { createDemand } from "../../../src/quota/demand.ts";
import { quotaKeys } from "../../../src/quota/quota-keys.ts";
import { createSnapshotReader } from "../../../src/quota/snapshot.ts";
import { DemandOrder } from "../../../src/simulate/demand-order.ts";
import type { Waiting } from "../../../src/simulate/service-order.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { openRedis } from "./support.ts";

const HOUR_MS = 3_600_000;
const SLICE_MS = HOUR_MS / 120;
const NOW = 1_764_000_000_000;

afterEach(() => takeTimeFrom(() => undefined));

type Writable = { -readonly [Key in keyof Waiting]: Waiting[Key] };

/** The records that wait, as the simulator has them. */
class Model {
  readonly #order = new DemandOrder(HOUR_MS);
  readonly #waiting = new Map<number, Writable>();

  changed(record: number, at: number): void {
    const entry = this.#waiting.get(record);
    if (entry === undefined) {
      const added = { record, changes: [0], first: at, newest: at, sum: at };
      this.#waiting.set(record, added);
      this.#order.add(added);
    } else {
      entry.changes.push(0);
      entry.newest = at;
      this.#order.changed(entry);
    }
  }

  /** @returns the record served next, and its rank */
  take(): { record: string; rank: number } | undefined {
    const rank = this.#order.lowestRank;
    const entry = this.#order.first();
    if (entry === undefined || rank === undefined) return undefined;
    this.#order.remove(entry);
    this.#waiting.delete(entry.record);
    return { record: String(entry.record), rank };
  }
}

/** Steps of milliseconds to hours, so that gaps of all sizes and forgotten records occur. */
const steps = fc.array(
  fc.record({
    afterMs: fc.oneof(fc.nat(2000), fc.nat(400_000), fc.nat(2 * HOUR_MS)),
    records: fc.array(fc.nat(6), { maxLength: 4 }),
    takes: fc.nat(2),
  }),
  { minLength: 1, maxLength: 25 },
);

test("whatever comes, the script keeps the ranks of the pure rule", async () => {
  const redis = openRedis();
  await fc.assert(
    fc.asyncProperty(steps, async (drawn) => {
      const prefix = uniquePrefix();
      const { priorities } = quotaKeys(prefix);
      const demand = createDemand(redis, { prefix, hourMs: HOUR_MS });
      const model = new Model();
      let now = NOW;
      takeTimeFrom(() => now);
      for (const { afterMs, records, takes } of drawn) {
        now += afterMs;
        await demand.changed(records.map((record) => ({ crmCode: `${record}`, lane: "live" })));
        for (const record of records) model.changed(record, now);
        for (let n = 0; n < takes; n += 1) {
          const expected = model.take();
          if (expected === undefined) break;
          const rank = await redis.zscore(priorities, expected.record);
          const lowest = await demand.highest();
          // Of equal ranks either may be first.
          expect(Number(rank)).toBe(expected.rank);
          expect(Number(lowest?.rank)).toBe(expected.rank);
          await demand.take(expected.record);
        }
      }
    }),
    { numRuns: 30, endOnFailure: true },
  );
});

test("when nothing waits, one table of a fixed size is left, which expires and names no record", async () => {
  const redis = openRedis();
  const prefix = uniquePrefix();
  const { learnt } = quotaKeys(prefix);
  const demand = createDemand(redis, { prefix, hourMs: HOUR_MS });
  const changed = async (crmCodes: readonly string[]) => {
    await demand.changed(crmCodes.map((crmCode) => ({ crmCode, lane: "live" })));
    await Promise.all(crmCodes.map((crmCode) => demand.take(crmCode)));
  };
  await changed(["ada@example.org", "ada@example.org"]);
  const bytes = await redis.memory("USAGE", learnt);
  await changed(Array.from({ length: 2000 }, (_, n) => `record ${n}`));
  expect(await redis.keys(`${prefix}*`)).toEqual([learnt]);
  expect(await redis.memory("USAGE", learnt)).toBe(bytes);
  expect(bytes).toBeLessThan(42_000);
  expect(await redis.get(learnt)).not.toContain("ada");
  const left = await redis.pttl(learnt);
  expect(left).toBeGreaterThan(0);
  expect(left).toBeLessThanOrEqual(2 * HOUR_MS);
});

test("changes are counted in their slices, by several callers, and old slices count no more", async () => {
  const redis = openRedis();
  const prefix = uniquePrefix();
  const demand = createDemand(redis, { prefix, hourMs: HOUR_MS });
  const options = { perHour: 1000, hourMs: HOUR_MS, hourHoldMs: 60_000, liveReserve: 100 };
  const read = createSnapshotReader(redis, quotaKeys(prefix), { ...options, pacing: "auto" });
  let now = Math.ceil(NOW / SLICE_MS) * SLICE_MS;
  takeTimeFrom(() => now);
  const change = (count: number) =>
    demand.changed(Array.from({ length: count }, (_, n) => ({ crmCode: `${n}`, lane: "live" })));
  await Promise.all([change(3), change(4)]);
  now += SLICE_MS;
  await change(1200);
  now += 2 * SLICE_MS;
  await change(5);
  now += SLICE_MS / 2;
  const { current, demand: slices } = await read();
  expect(current).toEqual({ changed: 5, passed: 0.5 });
  expect(slices).toEqual([0, 1200, 7, 0, 0, 0, 0, 0, 0]);
  // The ring has sixteen places: these slices have the same ones.
  now += 16 * SLICE_MS;
  expect((await read()).current.changed).toBe(0);
  expect((await read()).demand).toEqual(Array.from({ length: 9 }, () => 0));
});
