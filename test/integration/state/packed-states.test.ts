/** How payload and event lie in a staged hash: packed together, in pieces, and as older releases wrote them. */
import { randomBytes, randomUUID } from "node:crypto";
import { deflateRawSync } from "node:zlib";
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { eventOrder } from "../../../src/event/event-order.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { PointerQueue } from "../../../src/state/pointer-queue.ts";
import { Resealing } from "../../../src/state/reseal.ts";
import { DamagedValue, Sealing } from "../../../src/state/sealing.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import type { StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import { personEvent } from "../../support/person-event.ts";
import { textOfKeys } from "../../support/text-of-keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const PLAIN = new Sealing([]);
const SEALED = new Sealing([Buffer.alloc(32, 7)]);

let prefix: string;
let keys: Keys;
beforeEach(() => {
  prefix = uniquePrefix();
  keys = keysOf(prefix);
});

const statesWith = (sealing: Sealing) => new StagedStates(redis, keys, sealing);

function change(order: string, extra: Partial<StateToStage> = {}): StateToStage {
  const event = personEvent("4711", { firstName: "Ada", lastName: `Muster ${order}` });
  return {
    crmCode: "4711",
    eventKey: `key-${order}`,
    order,
    payload: JSON.stringify((event["data"] as { record: unknown }).record),
    fingerprint: `f-${order}`,
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: 1000,
    event: JSON.stringify(event),
    ...extra,
  };
}

async function take(states: StagedStates, crmCode = "4711"): Promise<TakenState> {
  const taken = await states.take(crmCode, randomUUID(), 0);
  if (taken.kind !== "taken") throw new Error(`expected to take it, got ${taken.kind}`);
  return taken.state;
}

const TIME = "2026-11-24T08:39:44.490Z";

it.each([
  ["in milliseconds", eventOrder({ time: TIME }, 8), "2026-11-24T08:39:44.490~8"],
  [
    "of a large number",
    eventOrder({ time: TIME }, 1e15),
    `2026-11-24T08:39:44.490~1${"0".repeat(15)}`,
  ],
  ["of the number 0", eventOrder({ time: TIME }, 0), "2026-11-24T08:39:44.490~0"],
  ["with a sequence", eventOrder({ time: TIME, sequence: "7" }, 8), undefined],
  [
    "with a sequence like one that is short",
    eventOrder({ time: TIME, sequence: "~8" }, 8),
    undefined,
  ],
  ["in microseconds", eventOrder({ time: "2026-11-24T08:39:44.490001Z" }, 8), undefined],
])(
  "an order %s is short while its change waits, and whole again after it",
  async (_, order, short) => {
    const states = statesWith(PLAIN);
    await states.stage(change(order));
    expect(await redis.hget(keys.staged("4711"), "o")).toBe(short ?? order);
    expect(await states.waiting(["4711"])).toMatchObject([{ order, fieldsOrder: order }]);
    const older = eventOrder({ time: "2026-11-24T08:39:44.489Z" }, 99);
    expect(await states.stage(change(older))).toMatchObject({ result: "superseded" });
    const later = eventOrder({ time: "2026-11-24T08:39:44.500Z" }, 9);
    const none = { payload: undefined, fingerprint: undefined, variant: undefined };
    await states.stage(change(later, { ...none, status: "terminated" }));
    expect(await states.waiting(["4711"])).toMatchObject([{ order: later, fieldsOrder: order }]);
    expect(await take(states)).toMatchObject({ order: later, eventOrder: order });
    expect((await readLedger()).w).toBe(later);
  },
);

const readLedger = async () =>
  JSON.parse((await redis.hget(keys.ledger, "4711")) ?? "{}") as { w?: string };

describe.each([
  ["without STATE_KEY", PLAIN],
  ["with STATE_KEY", SEALED],
])("%s", (_which, sealing) => {
  it.each([
    ["live", "4711"],
    ["bulk", randomUUID()],
  ] as const)("a %s change takes little room in Redis", async (lane, crmCode) => {
    await statesWith(sealing).stage(change("1", { lane, crmCode }));
    const pointers = new PointerQueue(redis, prefix, keys);
    await pointers.add([{ crmCode, lane }]);
    expect(await pointers.hasJob(crmCode)).toBe(true);
    const [id] = await pointers.queue.getRanges(["wait", "prioritized"]);
    for (const key of [keys.staged(crmCode), pointers.queue.toKey(id ?? "")]) {
      expect(await redis.object("ENCODING", key), key).toBe("listpack");
    }
    await pointers.close();
  });

  it("a deletion keeps the payload of the state before it, with its event", async () => {
    const states = statesWith(sealing);
    const updated = change("1");
    await states.stage(updated);
    const deleted = change("2", { payload: undefined, status: "terminated" });
    await states.stage(deleted);
    const { payload, event } = await take(states);
    expect({ payload, event }).toEqual({ payload: updated.payload, event: updated.event });
    expect(await states.events(["4711", "none"])).toEqual([[updated.event, deleted.event], []]);
  });

  it("older fields that are the newest come with their own event", async () => {
    const states = statesWith(sealing);
    const deleted = change("2", { payload: undefined, status: "terminated" });
    await states.stage(deleted);
    const late = change("1");
    await states.stage(late);
    const { payload, event, status } = await take(states);
    expect({ payload, event }).toEqual({ payload: late.payload, event: late.event });
    expect(status).toBe("terminated");
    const next = change("3");
    await states.stage(next);
    expect(await take(states)).toMatchObject({ payload: next.payload, event: next.event });
  });

  it("fields read of the service take the payload's place, and the event stays", async () => {
    const states = statesWith(sealing);
    const deleted = change("1", { payload: undefined, status: "terminated" });
    await states.stage(deleted);
    const fetched = `{"fetched":true}`;
    const how = { row: "before", finished: false, payload: fetched } as const;
    await states.settle(await take(states), how);
    const after = { payload: fetched, event: deleted.event };
    expect(await take(states)).toMatchObject(after);
    // Also when the payload was there, with the event in it.
    const updated = change("2");
    await states.stage(updated);
    await states.settle(await take(states), how);
    expect(await take(states)).toMatchObject({ payload: fetched, event: updated.event });
  });

  it.each([1, 100, 5000, 300_000])("texts of %i bytes replace each other", async (bytes) => {
    const states = statesWith(sealing);
    await states.stage(change("1"));
    const long = change("2", { event: JSON.stringify(randomBytes(bytes).toString("base64")) });
    await states.stage(long);
    expect(await take(states)).toMatchObject({ payload: long.payload, event: long.event });
    const short = change("3", { payload: "{}", event: "{}" });
    await states.stage(short);
    expect(await take(states)).toMatchObject({ payload: "{}", event: "{}" });
  });

  it("a state of an older release is taken, replaced and sealed anew", async () => {
    const states = statesWith(sealing);
    const old = change("1");
    const seal = (text: string) => sealing.seal(text, "4711");
    const stageOld = async () => {
      await redis.del(keys.staged("4711"));
      const fields = "v 1 fp f-1 st mapped k Person o 1 l live t 1000 t0 900 ek key-1".split(" ");
      const texts = ["p", await seal(old.payload ?? ""), "ev", await seal(old.event)];
      await redis.hset(keys.staged("4711"), ...fields, ...texts);
      await redis.zadd(keys.unsynced("live"), 1, "4711");
    };
    await stageOld();
    expect(await take(states)).toMatchObject({
      payload: old.payload,
      event: old.event,
      status: "mapped",
      lane: "live",
      firstTime: 900,
    });
    const newKey = Buffer.alloc(32, 8);
    await new Resealing(redis, keys, new Sealing([newKey, Buffer.alloc(32, 7)])).pass([], () =>
      Promise.resolve(),
    );
    expect(await take(statesWith(new Sealing([newKey])))).toMatchObject({ event: old.event });
    await stageOld();
    const deleted = change("2", { payload: undefined, status: "terminated" });
    await states.stage(deleted);
    const after = await take(states);
    expect(after).toMatchObject({ payload: old.payload, event: deleted.event, firstTime: 900 });
    const next = change("3");
    await states.stage(next);
    expect(await take(states)).toMatchObject({ payload: next.payload, event: next.event });
  });
});

it("is sealed for its record alone", async () => {
  await statesWith(SEALED).stage(change("1"));
  expect([...(await textOfKeys(redis, prefix)).values()].join()).not.toContain("Ada");
  await redis.copy(keys.staged("4711"), keys.staged("4712"));
  await expect(take(statesWith(SEALED), "4712")).rejects.toThrow(DamagedValue);
});

it.each([
  ["garbage", Buffer.from([1, 1, 0xff, 0xff])],
  ["of an unknown dictionary", Buffer.from([1, 99])],
  ["cut off", Buffer.from([1])],
  ["a bomb", Buffer.concat([Buffer.from([1, 1]), deflateRawSync(Buffer.alloc(65 << 20))])],
  ["not what was sealed", Buffer.concat([Buffer.of(2), idOf(SEALED), randomBytes(60)])],
  ["too short to be sealed", Buffer.concat([Buffer.of(2), idOf(SEALED), randomBytes(9)])],
])("a value that is %s is damaged, and the record is given back", async (_what, value) => {
  const states = statesWith(SEALED);
  await states.stage(change("1"));
  await redis.hdel(keys.staged("4711"), "p1", "p2", "p3", "p4");
  await redis.hset(keys.staged("4711"), "p", value);
  for (const token of ["a", "b"]) {
    await expect(states.take("4711", token, 60_000)).rejects.toThrow(DamagedValue);
  }
  const next = change("2");
  await states.stage(next);
  expect(await take(states)).toMatchObject({ payload: next.payload });
});

function idOf({ keyId }: Sealing): Buffer {
  return Buffer.from(keyId ?? "", "base64url");
}
