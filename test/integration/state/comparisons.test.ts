/** The list of the last comparisons: bounded, and gone after 180 days. */
import { expect, test } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import type { NotedComparison } from "../../../src/core/state/comparisons.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";
import { newRuntime } from "../../support/new-runtime.ts";

const DAY_MS = 86_400_000;
const NOW = Date.parse("2026-11-22T10:00:00Z");

const noted = (at: number): NotedComparison => ({
  at,
  tookMs: 1,
  source: "schedule",
  crm: "hubspot",
  kind: "hubspot",
  asOf: at,
  records: 3,
  equal: 2,
  drift: { missing: 1 },
});

test("the last ten are kept, newest first, for 180 days", async () => {
  const { comparisons, keys, redis } = newRuntime();
  expect(await comparisons.last(NOW)).toEqual([]);
  const oldest = NOW - 181 * DAY_MS;
  await comparisons.note(noted(oldest));
  await comparisons.note(noted(oldest + 2 * DAY_MS));
  // Too old ones leave Redis with the next one, and are not shown before that.
  expect(await comparisons.last(NOW)).toEqual([noted(oldest + 2 * DAY_MS)]);
  await comparisons.note(noted(NOW));
  expect(await redis.zcard(keys.comparisons)).toBe(2);
  for (let n = 1; n <= 12; n += 1) await comparisons.note(noted(NOW + n));
  const times = (await comparisons.last(NOW)).map(({ at }) => at - NOW);
  expect(times).toEqual([12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
  expect(await redis.zcard(keys.comparisons)).toBe(10);
  const left = await redis.pttl(keys.comparisons);
  expect(left).toBeGreaterThan(179 * DAY_MS);
  expect(left).toBeLessThanOrEqual(180 * DAY_MS);
});

test("of each kind of export the newest is kept, whatever was compared since; thirty in all", async () => {
  const { comparisons, keys, redis } = newRuntime();
  const note = (n: number, kind: string, more: Partial<NotedComparison> = {}) =>
    comparisons.note({ ...noted(NOW + n), kind, ...more });
  const timesOf = async (kind: string) =>
    (await comparisons.ofKind(kind, NOW)).map(({ at }) => at - NOW);
  await note(1, "contacts");
  await note(2, "contacts");
  await note(3, "contacts", { stop: "empty" });
  for (let n = 4; n <= 20; n += 1) await note(n, "companies");
  expect(await timesOf("contacts")).toEqual([2]);
  expect(await timesOf("companies")).toEqual([20, 19, 18, 17, 16, 15, 14, 13, 12, 11]);
  expect(await comparisons.last(NOW)).toHaveLength(10);
  for (let n = 21; n <= 60; n += 1) await note(n, `kind ${n}`);
  expect(await redis.zcard(keys.comparisons)).toBe(30);
  expect(await timesOf("contacts")).toEqual([]);
});

test("an open plan is found behind comparisons of other exports, until its own kind is compared again", async () => {
  const { comparisons, reconciliations, redis } = newRuntime();
  const open = async () =>
    (await readOne(redis, comparisons.withOpenPlan())).map(({ plan }) => plan?.id);
  let at = NOW;
  const compare = (kind: string, plan?: string, more: Partial<NotedComparison> = {}) => {
    const { crm: _, ...file } = noted((at += 1));
    return comparisons.note({
      ...file,
      kind,
      source: "folder",
      ...(plan !== undefined && { plan: { id: plan, entries: 1, requests: 1, host: "h" } }),
      ...more,
    });
  };
  await compare("contacts", "p1");
  await compare("companies");
  expect(await open()).toEqual(["p1"]);
  await compare("companies", "p2");
  expect(await open()).toEqual(["p2", "p1"]);
  // Begun: whether it is finished is told elsewhere. Stopped: no newer word about its export.
  const begun = { state: "running" as const, done: 0, entries: 1, requests: 1, repaired: {} };
  await reconciliations.note({ id: "p2", ...begun });
  await compare("contacts", undefined, { stop: "empty" });
  expect(await open()).toEqual(["p1"]);
  await compare("contacts");
  expect(await open()).toEqual([]);
  await compare("contacts", "p3");
  // One object of it was listed, and then the whole CRM.
  await compare("list-contact", "p4", { crm: "hubspot", object: "contact" });
  await compare("list-company", "p5", { crm: "hubspot", object: "company" });
  expect(await open()).toEqual(["p5", "p4", "p3"]);
  await compare("other-list", "p6", { crm: "salesforce" });
  await compare("list", "p7", { crm: "hubspot" });
  expect(await open()).toEqual(["p7", "p6"]);
  await compare("contacts", "p8");
  for (let n = 0; n < 20; n += 1) await compare("companies");
  expect(await open()).toEqual(["p8", "p7", "p6"]);
});

test("what a plan has left that was cancelled, or left something out, is found behind other exports", async () => {
  const { comparisons, reconciliations, redis } = newRuntime();
  const left = async () =>
    (await readOne(redis, comparisons.withOpenPlan())).map(({ drift }) => drift);
  const plan = (id: string) => ({ id, entries: 9, requests: 9, host: "h" });
  const note = (id: string, state: "running" | "done", different: number) =>
    reconciliations.note({ id, state, done: 9, entries: 9, requests: 0, repaired: { different } });
  const { crm: _, ...file } = noted(NOW);
  const drift = { different: 9 };
  await comparisons.note({ ...file, at: NOW, kind: "contacts", drift, plan: plan("p1") });
  await comparisons.note({ ...file, at: NOW + 1, kind: "companies", drift, plan: plan("p2") });
  await comparisons.note({ ...file, at: NOW + 2, kind: "others", drift: {} });
  await note("p1", "running", 4);
  await note("p2", "running", 0);
  expect(await left()).toEqual([]);
  await note("p2", "done", 8);
  await reconciliations.cancel("p1");
  expect(await left()).toEqual([{ different: 1 }, { different: 5 }]);
  await comparisons.note({ ...file, at: NOW + 3, kind: "contacts", drift: {} });
  expect(await left()).toEqual([{ different: 1 }]);
});

test("a plan repairs the differences of its own comparison, and none of a later one", async () => {
  const { reconciliations, redis } = newRuntime();
  const drift = async () => (await readOne(redis, reconciliations.last()))?.drift.different;
  const found = { tookMs: 1, records: 50, equal: 10, drift: { ...NO_DRIFT, different: 40 } };
  const done = { state: "done" as const, done: 40, entries: 40, requests: 0 };
  await reconciliations.keep({ ...found, at: NOW, planId: "contacts" });
  await reconciliations.keep({ ...found, at: NOW + 1, planId: "companies" });
  await reconciliations.note({ id: "contacts", ...done, repaired: { different: 40 } });
  expect(await drift()).toBe(40);
  await reconciliations.note({ id: "companies", ...done, repaired: { different: 30 } });
  expect(await drift()).toBe(10);
  // Compared again, and nothing was planned.
  await reconciliations.keep({ ...found, at: NOW + 2 });
  await reconciliations.note({ id: "companies", ...done, repaired: { different: 10 } });
  expect(await drift()).toBe(40);
});
