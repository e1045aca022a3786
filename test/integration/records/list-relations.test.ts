/** Every relation that is known, with its state: each once, and as the status counts them. */
import { expect, test } from "vitest";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import { readStatus } from "../../../src/operate/status/status.ts";
import {
  countRelations,
  listRelations,
  pageOfRelations,
  repairOf,
  type ListCursor,
  type RelationFilter,
  type RelationState,
} from "../../../src/records/list-relations.ts";
import { openPorts } from "../../../workers/intake.ts";
import type { Parts } from "../../../workers/parts.ts";
import { hold } from "../../support/hold.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { DELETED, editStaged, listed, rowAt, stateOf } from "../../support/stores-of.ts";

const ORDER = "2026-11-22T10:41:00.000000000Z";

const listOf = async (stores: Parts, filter?: RelationFilter): Promise<RelationState[]> =>
  (await Array.fromAsync(listRelations(stores, filter))).flat();

/** One of each state, and one that is in two. */
async function oneOfEach(stores: Parts): Promise<void> {
  const { staged } = stores;
  const ports = await openPorts(stores).current();
  const accept = (event: unknown) => acceptEvent(event, { at: Date.now(), number: 1 }, ports);
  await listed(stores, [
    ["sent", rowAt(ORDER, "f", { provedAt: 5000, since: 4000, written: true })],
    ["ended", rowAt(ORDER, "f", { terminated: true })],
    ["listed", rowAt("", "f", { variant: "Company" })],
    ["absent", rowAt(ORDER, "f", { exists: false })],
    ["unsure", rowAt(ORDER, "f", { uncertain: true })],
  ]);
  await staged.stage(stateOf("waits", ORDER));
  await staged.stage(stateOf("tried", ORDER, { lane: "bulk" }));
  const due = Date.now() + 60_000;
  await editStaged(stores, "tried", (one) => ({
    ...one,
    due,
    tries: { failed: 1, firstAt: 1, since: 1, why: "500 (server_error)" },
  }));
  await staged.stage(stateOf("late", ORDER));
  await listed(stores, [["late", rowAt(ORDER, "f", { uncertain: true })]]);
  await editStaged(stores, "late", (one) => ({ ...one, due, confirm: { why: "late", since: 1 } }));
  await hold(stores, "held", "contact/7", "/crm/a");
  await accept(personEvent("bad", { lastName: "" }, { subject: "contact/8", source: "/crm/b" }));
  await accept(personEvent("", {}, { subject: "contact/9" }));
  // Its deletion is newer than the event that could not be used, and is held.
  await hold(stores, "both", "contact/5", "/crm/a");
  await accept(personEvent("both", { lastName: "" }, { subject: "contact/5" }));
}

test("each relation is listed once, with its state, why it is so, and what comes next", async () => {
  const stores = newRuntime();
  await oneOfEach(stores);
  const all = await listOf(stores);
  const states = all.map(({ also, crmCode = "-", state }) => [crmCode, state, ...also].join(" "));
  expect(states.toSorted()).toEqual([
    "- rejected",
    "absent unknown",
    "bad rejected",
    "both rejected held",
    "ended ended",
    "held held",
    "late unknown",
    "listed on the service",
    "sent on the service",
    "tried retrying",
    "unsure unknown",
    "waits waiting",
  ]);
  const of = (name: string) => all.find(({ crmCode }) => crmCode === name);
  expect(of("sent")).toEqual({
    crmCode: "sent",
    record: undefined,
    type: "Person",
    state: "on the service",
    also: [],
    since: 4000,
    why: "",
    next: "",
    confirmedAt: 5000,
    confirmedBy: "answer",
    owner: undefined,
    source: undefined,
  });
  expect(of("listed")).toMatchObject({ confirmedBy: "listed", type: "Company" });
  expect(of("bad")).toMatchObject({ record: "contact/8", source: "/crm/b" });
  expect(of("bad")?.why).toMatch(/^lastName /);
  expect(of("bad")?.next).toMatch(/^Correct the named fields/);
  expect(of("unsure")?.next).toMatch(/^Its next change/);
  expect(of("late")?.next).toMatch(/^crmsync reads it once more at \d/);
  expect(of("tried")).toMatchObject({ why: "HTTP 500" });
  expect(of("held")?.why).toMatch(/TERMINATE_LIMIT/);
});

test("no remedy promises that a plan ends a relation that the CRM lacks", () => {
  expect(repairOf("extra")).toBe(repairOf("foreign"));
  expect(repairOf("missing")).toMatch(/the plan of the comparison, repairs it/);
});

test("what the filters want is listed, and nothing else", async () => {
  const stores = newRuntime();
  await oneOfEach(stores);
  const codes = async (filter: RelationFilter) =>
    (await listOf(stores, filter)).map(({ crmCode = "-" }) => crmCode).toSorted();
  expect(await codes({ states: ["held"] })).toEqual(["both", "held"]);
  expect(await codes({ states: ["rejected"] })).toEqual(["-", "bad", "both"]);
  expect(await codes({ states: ["waiting", "retrying"] })).toEqual(["tried", "waits"]);
  expect(await codes({ states: ["ended", "unknown"] })).toEqual([
    "absent",
    "ended",
    "late",
    "unsure",
  ]);
  expect(await codes({ type: "Company" })).toEqual(["listed"]);
  expect(await codes({ source: "/crm/b" })).toEqual(["bad"]);
  expect(await codes({ search: "CONTACT/8" })).toEqual(["bad"]);
  expect(await codes({ since: Date.now() + 60_000 })).toEqual([]);
});

test("the numbers are those of the status, to the unit", async () => {
  const stores = newRuntime();
  await oneOfEach(stores);
  const { relations, states } = await countRelations(stores);
  const { backlog, deadLetters, terminations } = await readStatus(stores, "test");
  expect(relations).toBe(12);
  expect(states).toEqual({
    "on the service": 2,
    waiting: backlog.live.records + backlog.bulk.records - backlog.retrying,
    retrying: backlog.retrying,
    held: terminations.held,
    rejected: deadLetters.total,
    ended: 1,
    foreign: 0,
    unknown: 3,
    differing: 0,
  });
  expect([states.waiting, states.retrying, states.held, states.rejected]).toEqual([1, 1, 2, 3]);
});

test("pages for people have each relation once, also where it stands in several places", async () => {
  const stores = newRuntime();
  await oneOfEach(stores);
  const rows = Array.from({ length: 700 }, (_, n) => [`c-${n}`, rowAt(ORDER)] as const);
  await stores.ledger.restartWarmUp();
  await listed(stores, rows);
  const found: string[] = [];
  let pages = 0;
  for (let from: ListCursor | undefined; pages === 0 || from !== undefined; pages += 1) {
    const { next, relations } = await pageOfRelations(stores, {}, { from, most: 50 });
    found.push(...relations.map(({ crmCode = "-" }) => crmCode));
    from = next;
  }
  expect(found).toHaveLength(712);
  expect(new Set(found).size).toBe(712);
  expect(pages).toBeGreaterThan(8);
});

test("the owner is listed with what waits, also where no outcomes are sent", async () => {
  const stores = newRuntime({ STATE_KEY: Buffer.alloc(32, 5).toString("base64") });
  const noted = {
    event: {
      source: "/crm/a",
      id: "1",
      type: "updated",
      subject: "contact/7",
      time: undefined,
      warnings: [],
      redriven: false,
    },
    ignored: undefined,
  } as const;
  await stores.staged.stage(stateOf("owned", ORDER, { owner: "u-12", noted }));
  await stores.staged.stage(stateOf("gone", ORDER, DELETED));
  const [owned] = await listOf(stores, { owner: "u-12" });
  expect(owned).toMatchObject({ crmCode: "owned", record: "contact/7", source: "/crm/a" });
});
