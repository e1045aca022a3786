/** Outcomes that wait: one of a record, bounded, and dropped after a day of failures. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { keysOf } from "../../../src/core/state/keys.ts";
import { RecordStore } from "../../../src/core/state/record-store.ts";
import { Resealing } from "../../../src/core/state/reseal.ts";
import { Sealing } from "../../../src/core/state/sealing.ts";
import { ToldOutcomes, type OutcomeMessage } from "../../../src/core/state/told-outcomes.ts";
import type { Told } from "../../../src/core/sync/told.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const HOUR_MS = 3_600_000;

function open() {
  const redis = new Redis(inject("redisUrl"));
  onTestFinished(() => redis.disconnect());
  const keys = keysOf(uniquePrefix());
  const sealing = new Sealing([Buffer.alloc(32, 7)]);
  const told = new ToldOutcomes(redis, keys, sealing, { hourMs: HOUR_MS, isOn: true });
  const tell = (id: string, one: Partial<Told>) =>
    told.commit([], told.callsOf(id, { outcome: "updated", at: 1, ...one }));
  return { keys, redis, tell, told };
}

async function nextOf(told: ToldOutcomes): Promise<OutcomeMessage> {
  await told.gather();
  const taken = await told.take();
  if (taken === undefined) throw new Error("nothing is due");
  return taken.message;
}

const linesOf = (message: OutcomeMessage) =>
  message.outcomes.map(([id, { at, clearedAt, outcome }]) => `${id} ${outcome} ${at} ${clearedAt}`);

test("the latest outcome of a record counts, and the end of a rejection is not lost", async () => {
  const { tell, told } = open();
  await tell("c:a", { outcome: "rejected", at: 1 });
  await tell("c:a", { outcome: "cleared", at: 2 });
  await tell("c:a", { outcome: "created", at: 3 });
  await tell("c:b", { outcome: "rejected", at: 4 });
  await tell("c:b", { outcome: "cleared", at: 5 });
  await tell("c:c", { outcome: "cleared", at: 6 });
  await tell("c:c", { outcome: "rejected", at: 7 });
  const message = await nextOf(told);
  expect(linesOf(message)).toEqual([
    "c:a created 3 2",
    "c:b cleared 5 undefined",
    "c:c rejected 7 undefined",
  ]);
});

test("a message has a hundred records at most, and what comes later of a record is told later", async () => {
  const { tell, told } = open();
  for (let n = 0; n < 150; n += 1) await tell(`c:${n}`, { at: n });
  const first = await nextOf(told);
  expect(first.outcomes).toHaveLength(100);
  for (let n = 0; n < 150; n += 1) await tell(`c:${n}`, { at: 1000 + n });
  expect(await told.settle(first, 0)).toBe("sent");
  const second = await nextOf(told);
  expect(second.outcomes.map(([id]) => id)).toHaveLength(50);
  expect(second.outcomes.every(([, { at }]) => at < 150)).toBe(true);
  expect(await told.settle(second, 0)).toBe("sent");
  expect((await nextOf(told)).outcomes.every(([, { at }]) => at >= 1000)).toBe(true);
});

test("what is beyond the bound is left out and counted, and no older outcome stands in for it", async () => {
  const { keys, redis, tell, told } = open();
  await tell("c:a", { outcome: "rejected" });
  told.setRoom(1);
  await tell("c:b", {});
  await tell("c:a", { outcome: "created" });
  expect(await redis.hkeys(keys.toldWaiting)).toEqual(["c:b"]);
  expect(await redis.get(keys.toldLeftOut)).toBe("1");
  expect(await told.room()).toBe(9999);
});

test("a message that is refused for an hour is left out; others follow", async () => {
  const { keys, redis, tell, told } = open();
  await tell("c:a", {});
  const message = await nextOf(told);
  const refused = { why: "HTTP 400", waitMs: undefined, isRefused: true };
  expect(await told.settle(message, 0, refused)).toBe("failed");
  // It was made an hour ago.
  const older = { ...message, at: message.at - HOUR_MS };
  await redis.lset(keys.toldQueue, 0, JSON.stringify(older));
  expect(await told.settle(message, 1, refused)).toBe("given_up");
  expect(await told.leaveOut(message, true)).toEqual({ isOff: false, leftOut: 1 });
  expect(await redis.get(keys.toldLeftOut)).toBe("1");
  await tell("c:b", {});
  expect(linesOf(await nextOf(told))).toEqual(["c:b updated 1 undefined"]);
});

test("after a day of failures all that waits is dropped, and one message an hour tries again", async () => {
  const { keys, redis, tell, told } = open();
  for (let n = 0; n < 120; n += 1) await tell(`c:${n}`, {});
  const message = await nextOf(told);
  const failed = { why: "HTTP 503", waitMs: undefined };
  await told.settle(message, 0, failed);
  expect(await told.leaveOut(message, false)).toEqual({ isOff: false, leftOut: 0 });
  await redis.hset(keys.toldTry, "since", Date.now() - 24 * HOUR_MS);
  await told.settle(message, 1, failed);
  expect(await told.leaveOut(message, false)).toEqual({ isOff: true, leftOut: 120 });
  expect(await redis.exists(keys.toldQueue, keys.toldSending, keys.toldWaiting)).toBe(0);
  await tell("c:new", {});
  await told.gather();
  expect(await told.take()).toBeUndefined();
  await redis.hset(keys.toldTry, "due", Date.now() - 1);
  const probe = await nextOf(told);
  expect(linesOf(probe)).toEqual(["c:new updated 1 undefined"]);
  expect(await told.settle(probe, 0)).toBe("sent");
  expect(await redis.exists(keys.toldTry)).toBe(0);
});

test("what names the record is sealed while it waits", async () => {
  const { keys, redis, tell, told } = open();
  const about = await told.seal("c:7", { source: "/crm", subject: "contact/7", owner: "ada@x.lu" });
  await tell("c:7", { about });
  const message = await nextOf(told);
  expect(await redis.lindex(keys.toldQueue, 0)).not.toMatch(/ada@x|contact/);
  expect(await told.open(message)).toMatchObject([
    { crmCode: "7", owner: "ada@x.lu", record: { source: "/crm", subject: "contact/7" } },
  ]);
});

test("after a rotation of STATE_KEY, what waits is sealed with the new key alone", async () => {
  const { keys, redis, tell, told } = open();
  const about = { source: "/crm", subject: "contact/7", owner: "u-12" };
  await tell("c:7", { about: await told.seal("c:7", about) });
  await tell("c:7", { outcome: "cleared", about: await told.seal("c:7", about) });
  await tell("e:x", { about: await told.seal("e:x", about) });
  const next = Buffer.alloc(32, 8);
  const both = new Sealing([next, Buffer.alloc(32, 7)]);
  await new Resealing(new RecordStore(redis, keys, both)).pass([], async () => {});
  const later = new ToldOutcomes(redis, keys, new Sealing([next]), { hourMs: 1000, isOn: true });
  const opened = await later.open(await nextOf(later));
  expect(opened.map(({ owner }) => owner)).toEqual(["u-12", "u-12"]);
});

test("after a rotation of STATE_KEY, what is set apart to be sent is sealed with the new key, too", async () => {
  const { keys, redis, tell, told } = open();
  for (let n = 0; n < 150; n += 1) {
    const about = await told.seal(`c:${n}`, { source: "/crm", subject: `contact/${n}` });
    await tell(`c:${n}`, { about });
  }
  expect(await told.settle(await nextOf(told), 0)).toBe("sent");
  const next = Buffer.alloc(32, 8);
  const both = new Sealing([next, Buffer.alloc(32, 7)]);
  await new Resealing(new RecordStore(redis, keys, both)).pass([], async () => {});
  const later = new ToldOutcomes(redis, keys, new Sealing([next]), { hourMs: 1000, isOn: true });
  const opened = await later.open(await nextOf(later));
  expect(opened.map(({ record }) => record?.source)).toEqual(Array(50).fill("/crm"));
});
