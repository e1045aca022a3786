import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, test } from "vitest";
import { History } from "../../../src/core/state/history.ts";
import type { Keys } from "../../../src/core/state/keys.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import type { EventStep, NewStep, NotedEvent, RunStep } from "../../../src/core/sync/step.ts";
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

const read = (name: Parameters<History["read"]>[0]) => history.read(name);

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

test("a record's own id is a crmCode like another, and the newest comes first", async () => {
  await staged.stage({ ...change("1", notedEventOf()), crmCode: "4711" });
  expect(await history.codesOf("contact/4711")).toEqual(["4711"]);
  expect(await history.codesOf("lead/4711")).toEqual([]);
  for (const [order, crmCode] of ["c-4711", "4711", "a", "b"].entries())
    await staged.stage({ ...change(`${order + 2}`, notedEventOf()), crmCode });
  expect(await history.codesOf("contact/4711")).toEqual(["b", "a", "4711"]);
});

test("a try that ends like the one before is one step with it, counted", async () => {
  await staged.stage(change("1", notedEventOf()));
  const tryAgain = async (step: RunStep) => {
    const taken = await staged.take("c-4711", "me", 1000);
    if (taken.kind !== "taken") throw new Error("not taken");
    await staged.settle(taken.state, { row: "before", finished: false, retryAt: 0 }, step);
  };
  const slower = { ...RUN, request: { method: "PUT", status: 503, durationMs: 900 } };
  for (const step of [RUN, RUN, slower, { ...RUN, reason: "timeout" }]) await tryAgain(step);
  expect(await read({ crmCode: "c-4711" })).toMatchObject([
    { kind: "event", times: 1 },
    { request: slower.request, reason: RUN.reason, times: 3 },
    { kind: "run", reason: "timeout", times: 1 },
  ]);
});

test("every kind of step is read as it was noted", async () => {
  const name = { crmCode: "c-4711" };
  const problems = { reason: "invalid", fields: ["birthDate"], rule: "must be a date" } as const;
  const event = notedEventOf({ time: 5, warnings: ["phone:invalid:kept"], redriven: true });
  const steps: NewStep[] = [
    ignored(event),
    { ...ignored(event), result: "rejected", ignored: undefined, reused: true, problems },
    RUN,
    { ...RUN, outcome: "updated", change: { changed: ["city", "email"], emptied: ["email"] } },
    { kind: "dead", problems },
    { kind: "act", act: "dead.redrive", by: "anna", approvedBy: "ben" },
  ];
  for (const step of steps) await history.note(name, step);
  expect(await read(name)).toEqual(
    steps.map((step) => ({ ...step, at: expect.any(Number) as number, times: 1 })),
  );
});

test("the newest 20 steps are kept, and expire", async () => {
  const name = { crmCode: "c-4711" };
  const events = Array.from({ length: 25 }, () => notedEventOf());
  for (const [n, event] of events.entries()) {
    await staged.stage(change(String(n).padStart(3, "0"), event));
  }
  const steps = await read(name);
  expect(steps).toMatchObject(events.slice(-20).map((event) => ({ event })));
  const all = [keys.history("crmCode", "c-4711"), keys.historyCodes("contact/4711")];
  for (const key of all) expect(await redis.pttl(key)).toBeGreaterThan(29 * 86_400_000);
});

test("texts of others are kept up to a length, in one line", async () => {
  const name = { subject: "contact/4711" };
  await history.note(name, ignored(notedEventOf({ id: "a\tb\nc", source: "s\n\tO" })));
  await history.note(name, ignored(notedEventOf({ id: "x".repeat(500), type: "odd" })));
  expect(await read(name)).toMatchObject([
    { event: { id: "a b c", source: "s  O", subject: "contact/4711" } },
    { event: { id: `${"x".repeat(79)}…`, type: "changed" } },
  ]);
});

test("no value of a record gets into its history", async () => {
  const state = { ...change("1", notedEventOf()), payload: '{"city":"SECRET"}', event: "SECRET" };
  await staged.stage(state);
  const [text = ""] = await redis.lrange(keys.history("crmCode", "c-4711"), 0, -1);
  expect(Object.keys(JSON.parse(text) as object).toSorted()).toEqual(
    ["at", "coalesced", "event", "kind", "result", "times"].toSorted(),
  );
  expect(text).not.toContain("SECRET");
});

test("what a newer release has written is left out, and a step that cannot be noted fails nothing", async () => {
  const key = keys.history("crmCode", "c-1");
  const unknown = ["?", "[]", "null", '{"kind":"new"}', '{"kind":"event","result":"new"}'];
  await redis.lpush(key, ...unknown);
  await staged.stage({ ...change("1", notedEventOf()), crmCode: "c-1" });
  expect(await read({ crmCode: "c-1" })).toMatchObject([{ result: "staged" }]);
  await redis.set(keys.history("crmCode", "c-2"), "of another type");
  await history.note({ crmCode: "c-2" }, RUN);
});

test("nothing is kept with HISTORY_DAYS=0, nor while Redis is nearly full", async () => {
  const off = new History(redis, keys, 0);
  await off.note({ crmCode: "c-4711" }, RUN);
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
