import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, test } from "vitest";
import { History } from "../../../src/state/history.ts";
import type { Keys } from "../../../src/state/keys.ts";
import type { StateToStage } from "../../../src/sync/record.ts";
import type { EventStep, NotedEvent, RunStep } from "../../../src/sync/step.ts";
import { notedEventOf } from "../../support/noted-event.ts";
import { storesOf, type TestStores } from "../../support/stores-of.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let history: History;
let staged: TestStores["staged"];

beforeEach(() => {
  ({ keys, history, staged } = storesOf(redis));
});

const ignored = (event: NotedEvent): EventStep => ({
  kind: "event",
  event,
  result: "ignored",
  coalesced: false,
  ignored: "when",
  whens: "Ab3dEf02",
  problems: undefined,
});

const change = (order: string, event: NotedEvent): StateToStage => ({
  crmCode: "c-4711",
  eventKey: "",
  order,
  payload: "{}",
  fingerprint: `f${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1,
  event: "{}",
  noted: { event, ignored: undefined },
});

const RUN: RunStep = {
  kind: "run",
  request: { method: "PUT", status: 503, durationMs: 12 },
  outcome: "unavailable",
  reason: "server_error",
  problems: undefined,
};

/** The connection carries what is not waited for before this. */
const read = async (name: Parameters<History["read"]>[0]) => history.read(name);

test("staging notes the event, its result, and to which crmCode its record led", async () => {
  const [older, newer] = [
    notedEventOf({ warnings: ["phone:invalid"] }),
    notedEventOf({ id: "no uuid, and a \u2028 separator" }),
  ];
  await staged.stage(change("2", older));
  await staged.stage(change("3", newer));
  await staged.stage(change("1", notedEventOf({ subject: "lead/1", source: "/crm/other" })));
  expect(await read({ crmCode: "c-4711" })).toMatchObject([
    { kind: "event", result: "staged", coalesced: false, event: older, times: 1 },
    { kind: "event", result: "staged", coalesced: true, event: newer },
    { result: "superseded", event: { subject: "lead/1", source: "/crm/other" } },
  ]);
  expect(await history.codesOf("contact/4711")).toEqual(["c-4711"]);
  await staged.stage({ ...change("9", newer), crmCode: "c-12" });
  expect(await history.codesOf("contact/4711")).toEqual(["c-12", "c-4711"]);
});

test("a crmCode that is the record's own id is known by the history of the relation", async () => {
  const own = { ...change("1", notedEventOf()), crmCode: "4711" };
  await staged.stage(own);
  expect(await redis.exists(keys.historyCodes("contact/4711"))).toBe(0);
  expect(await history.codesOf("contact/4711")).toEqual(["4711"]);
  expect(await history.codesOf("lead/4711")).toEqual([]);
  await staged.stage(change("2", notedEventOf()));
  expect(await history.codesOf("contact/4711")).toEqual(["c-4711", "4711"]);
  await staged.stage({ ...change("3", notedEventOf()), crmCode: "4711" });
  expect(await history.codesOf("contact/4711")).toEqual(["4711", "c-4711"]);
});

test("a step that repeats is one step, counted", async () => {
  const name = { crmCode: "c-4711" };
  for (let n = 0; n < 5; n += 1) history.note(name, RUN);
  history.note(name, { ...RUN, outcome: "updated", reason: undefined });
  expect(await read(name)).toMatchObject([
    { ...RUN, times: 5 },
    { kind: "run", outcome: "updated", times: 1 },
  ]);
});

test("the newest 20 steps are kept, with their origin, in about a kilobyte, and expire", async () => {
  const name = { crmCode: "c-4711" };
  const events = Array.from({ length: 50 }, () => notedEventOf());
  for (const [n, event] of events.entries()) {
    await staged.stage(change(String(n).padStart(3, "0"), event));
  }
  const steps = await read(name);
  expect(steps.length).toBeLessThanOrEqual(20);
  expect(steps.length).toBeGreaterThanOrEqual(15);
  expect(steps).toMatchObject(events.slice(-steps.length).map((event) => ({ event })));
  const all = [keys.history("crmCode", "c-4711"), keys.historyCodes("contact/4711")];
  const sizes = await Promise.all(all.map((key) => redis.memory("USAGE", key)));
  expect(sizes.reduce((sum: number, size) => sum + (size ?? 0), 0)).toBeLessThanOrEqual(1300);
  for (const key of all) expect(await redis.pttl(key)).toBeGreaterThan(29 * 86_400_000);

  for (let n = 0; n < 25; n += 1) history.note(name, { kind: "act", act: `act ${n}` });
  const acts = await read(name);
  expect(acts.map((step) => step.kind === "act" && step.act)).toEqual(
    Array.from({ length: 20 }, (_, n) => `act ${n + 5}`),
  );
});

test("steps that are too old go with the next one", async () => {
  const name = { subject: "contact/4711" };
  const key = keys.history("subject", "contact/4711");
  const old = (Date.now() - 31 * 86_400_000).toString(16);
  await redis.set(key, `O/crm/old\tcontact/1\nA${old}\tdead.drop\n`);
  history.note(name, ignored(notedEventOf()));
  expect(await read(name)).toMatchObject([{ kind: "event", result: "ignored", ignored: "when" }]);
});

test("texts of others do not break a line, and a long one does not push all others out", async () => {
  const name = { subject: "contact/4711" };
  history.note(name, ignored(notedEventOf({ id: "a\tb\nc", source: "s\n\tO" })));
  history.note(name, ignored(notedEventOf({ id: "x".repeat(500) })));
  const steps = await read(name);
  expect(steps).toMatchObject([
    { event: { id: "a b c", source: "s  O", subject: "contact/4711" } },
    { event: { id: `${"x".repeat(39)}…` } },
  ]);
});

test("a history that cannot be written fails no change", async () => {
  await redis.sadd(keys.history("crmCode", "c-4711"), "of another type");
  await redis.sadd(keys.historyCodes("contact/4711"), "of another type");
  await redis.set(keys.history("crmCode", "c-1"), "\n?\nO\nEzz\n");
  await staged.stage({ ...change("1", notedEventOf()), crmCode: "c-1" });
  expect(await read({ crmCode: "c-1" })).toMatchObject([{ result: "staged" }]);
  expect(await staged.stage(change("1", notedEventOf()))).toMatchObject({ result: "staged" });
  const taken = await staged.take("c-4711", "me", 1000);
  if (taken.kind !== "taken") throw new Error("not taken");
  expect(await staged.settle(taken.state, { row: "before", finished: true }, RUN)).toBe("settled");
});

test("nothing is kept with HISTORY_DAYS=0, nor while Redis is nearly full", async () => {
  const off = new History(redis, keys, 0);
  off.note({ crmCode: "c-4711" }, RUN);
  await off.keepSince(Date.now());
  expect(await off.since(Date.now())).toBeUndefined();
  history.leaveOut(true);
  await staged.stage(change("1", notedEventOf()));
  expect(await read({ crmCode: "c-4711" })).toEqual([]);
  // What is left out is admitted: the history begins anew.
  await history.keepSince(5000);
  await history.keepSince(6000);
  expect(await history.since(7000)).toBe(6000);
  history.leaveOut(false);
  await history.keepSince(8000);
  expect(await history.since(9000)).toBe(6000);
});
