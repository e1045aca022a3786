/** How events are remembered that were staged, and what that takes. */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeEach, expect, inject, test, vi } from "vitest";
import { eventKey } from "../../../src/event/event-key.ts";
import { BulkChanges } from "../../../src/state/bulk-changes.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { SEEN_MAX_PER_BUCKET, seenKeys } from "../../../src/state/seen-keys.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let staged: StagedStates;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  staged = new StagedStates(redis, keys, new Sealing([]));
});

const keyOf = (n: number) => eventKey({ source: "/crm/test", id: `event ${n}` });

const change = (n: number, more: Partial<StateToStage> = {}): StateToStage => ({
  crmCode: `c${n}`,
  eventKey: keyOf(n),
  order: "1",
  payload: "{}",
  fingerprint: "f",
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1,
  event: "{}",
  ...more,
});

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

const buckets = async (): Promise<string[]> => {
  const [week] = seenKeys(keys);
  return redis.keys(`${week.replaceAll(/[{}[\]]/g, "?")}:*`);
};

/** Sets the clock of this process. */
const setTime = (at: number) => vi.useFakeTimers({ now: at, toFake: ["Date"] });
afterEach(() => vi.useRealTimers());

test("an event takes about eight bytes, in buckets that expire", async () => {
  const COUNT = 10_000;
  const all = numbers(COUNT);
  await staged.stageAll(all.map((n) => change(n, { crmCode: `c${n % 50}` })));
  const names = await buckets();
  expect(names).toHaveLength(1024);
  const counts = await Promise.all(names.map((name) => redis.scard(name)));
  // Each has an integer of its own; they are spread evenly.
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(COUNT);
  expect(Math.max(...counts)).toBeLessThan(40);
  const forms = await Promise.all(names.map((name) => redis.object("ENCODING", name)));
  expect(new Set(forms)).toEqual(new Set(["intset"]));
  const sizes = await Promise.all(names.map((name) => redis.memory("USAGE", name)));
  const each = sizes.reduce((sum: number, size) => sum + (size ?? 0), 0) / COUNT;
  expect(each).toBeLessThan(30);
  for (const name of names.slice(0, 20)) {
    expect(await redis.ttl(name)).toBeGreaterThan(14 * 86_400);
    expect(await redis.ttl(name)).toBeLessThanOrEqual(15 * 86_400);
  }
  expect((await staged.seen(all.map(keyOf))).size).toBe(COUNT);
  expect((await staged.seen(all.map((n) => keyOf(COUNT + n)))).size).toBe(0);
});

test("a bucket expires a week after its own has ended, however often an event comes into it", async () => {
  await staged.stage(change(1));
  const [name = ""] = await buckets();
  await redis.expire(name, 1000);
  await staged.stageAll(numbers(5000).map((n) => change(10 + n, { crmCode: "other" })));
  expect(await redis.scard(name)).toBeGreaterThan(1);
  expect(await redis.ttl(name)).toBeLessThanOrEqual(1000);
});

test("an event is remembered for a week at least, and for two at most", async () => {
  // A Thursday, as the epoch was: a week of ours begins.
  const begin = Math.ceil(Date.now() / WEEK_MS) * WEEK_MS;
  const end = begin + WEEK_MS - 1;
  for (const [n, at] of [begin, end].entries()) {
    setTime(at);
    expect((await staged.stage(change(n))).result).toBe("staged");
    setTime(at + WEEK_MS);
    expect((await staged.stage(change(n))).result).toBe("duplicate");
    expect(await staged.seen([keyOf(n)])).toEqual(new Set([keyOf(n)]));
    setTime(at + 2 * WEEK_MS);
    expect(await staged.seen([keyOf(n)])).toEqual(new Set());
  }
});

test("copies within one call are found, and a state that could not be staged has no event that was seen", async () => {
  await redis.hset(keys.ledger, "c2", "{");
  const states = [change(1), change(1, { crmCode: "other" }), change(2), change(3)];
  const results = await staged.stageAll(states);
  expect(results[0]).toMatchObject({ result: "staged" });
  expect(results[1]).toMatchObject({ result: "duplicate" });
  expect(results[2]).toBeInstanceOf(Error);
  expect(await staged.seen([1, 2, 3].map(keyOf))).toEqual(new Set([keyOf(1), keyOf(3)]));
  expect(await redis.exists(keys.staged("other"))).toBe(0);
});

test("a full bucket takes no more events; what it has is still recognised", async () => {
  await staged.stage(change(1));
  const [name = ""] = await buckets();
  await redis.sadd(name, ...numbers(SEEN_MAX_PER_BUCKET - 1));
  const many = numbers(5000).map((n) => change(10 + n));
  await staged.stageAll(many);
  expect(await redis.scard(name)).toBe(SEEN_MAX_PER_BUCKET);
  const known = await staged.seen(many.map((state) => state.eventKey));
  expect(known.size).toBeLessThan(many.length);
  expect(known.size).toBeGreaterThan(many.length - 50);
  expect((await staged.stage(change(1))).result).toBe("duplicate");
});

test("what is redriven or cancelled may be sent again, also of the last week", async () => {
  const begin = Math.ceil(Date.now() / WEEK_MS) * WEEK_MS;
  setTime(begin - DAY_MS);
  await staged.stageAll([change(1), change(2, { lane: "bulk" })]);
  setTime(begin + DAY_MS);
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set([keyOf(1), keyOf(2)]));
  await staged.forgetEvent(keyOf(1));
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set([keyOf(2)]));
  await new BulkChanges(redis, keys, 1000, { note() {}, notedMs: "" }).drop(["c2"]);
  expect(await staged.seen([keyOf(1), keyOf(2)])).toEqual(new Set());
});

test("an event that is not remembered any more changes nothing when it comes again", async () => {
  await staged.stageAll([change(1, { order: "3", eventKey: "" }), change(2, { eventKey: "" })]);
  const results = await staged.stageAll([change(1, { order: "2" }), change(2, { order: "1" })]);
  expect(results).toMatchObject([{ result: "superseded" }, { result: "staged", coalesced: true }]);
  expect(await redis.zcard(keys.unsynced("live"))).toBe(2);
});
