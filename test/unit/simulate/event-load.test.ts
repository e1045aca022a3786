import { expect, test } from "vitest";
import { parseEvent } from "../../../src/event/crm-event.ts";
import { EventLoad, type Load } from "../../../src/simulate/event-load.ts";

/** Events of the subject contact/1, a minute apart, with these differences. */
function loadOf(...events: readonly Record<string, unknown>[]): Load {
  const load = new EventLoad();
  for (const [n, given] of events.entries()) {
    const { minute = n, ...rest } = given;
    const event = {
      specversion: "1.0",
      id: `e${n}`,
      source: "/crm",
      type: "crm.record.updated",
      subject: "contact/1",
      data: { record: { name: "Ada" } },
      ...rest,
    };
    const parsed = parseEvent(event, Number.POSITIVE_INFINITY);
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems));
    load.add(parsed.event, 60_000 * Number(minute));
  }
  return load.load();
}

const fields = (record: Record<string, unknown>) => ({ data: { record } });
const statesOf = ({ changes }: Load) => changes.map(({ state }) => state);

test("a record is its subject", () => {
  const { changes, records } = loadOf({}, { subject: "contact/2" }, {});
  expect(records).toBe(2);
  expect(changes.map(({ record }) => record)).toEqual([0, 1, 0]);
});

test("a payload's record is its crmCode, also when another subject carries it", () => {
  const payload = (crmCode: string) => fields({ type: "Person", crmCode, firstName: "Ada" });
  const load = loadOf(
    payload("A"),
    { subject: "client/1", ...payload("A") },
    { subject: "client/2", ...payload("B") },
    { type: "crm.record.deleted", data: undefined },
  );
  expect(load.records).toBe(2);
  expect(load.changes.map(({ record }) => record)).toEqual([0, 0, 1, 0]);
});

test("changes are in the order of their times; late lines and repeated events are counted", () => {
  const load = loadOf({ minute: 5 }, { minute: 3 }, { minute: 4 }, { id: "e0", minute: 9 });
  expect(load.changes.map(({ at }) => at / 60_000)).toEqual([3, 4, 5]);
  expect(load).toMatchObject({ events: 4, duplicates: 1, outOfOrder: 2 });
});

test("equal fields are an equal state; a deletion and a restoration keep the fields", () => {
  const load = loadOf(
    {},
    fields({ name: "Bob" }),
    {},
    { type: "crm.record.deleted", data: undefined },
    { type: "crm.record.restored", data: undefined },
  );
  const [ada, bob, again, deleted, restored] = statesOf(load);
  expect(again).toBe(ada);
  expect(restored).toBe(ada);
  expect(new Set([ada, bob, deleted]).size).toBe(3);
  expect(load.changes.map(({ bare }) => bare)).toEqual([false, false, false, true, true]);
});

test("of a payload only what the service stores counts; of another record, everything", () => {
  const payload = { type: "Person", crmCode: "A", firstName: "Ada" };
  const withNote = loadOf(fields(payload), fields({ ...payload, note: "x" }));
  expect(new Set(statesOf(withNote)).size).toBe(1);
  const record = { type: "Person", firstName: "Ada" };
  const other = loadOf(fields(record), fields({ ...record, note: "x" }));
  expect(new Set(statesOf(other)).size).toBe(2);
});

test("what a thin event's record contained is not known, so each one is a new state", () => {
  const thin = { data: { fetch: "hubspot" } };
  const load = loadOf(thin, thin);
  expect(new Set(statesOf(load)).size).toBe(2);
  expect(load.changes.map(({ bare }) => bare)).toEqual([false, false]);
});

test("a merge is a change of each record that it names", () => {
  const data = { record: { name: "Ada" }, merged: ["contact/2", "contact/3"] };
  const { changes, records } = loadOf({ type: "crm.record.merged", data });
  expect(records).toBe(3);
  expect(changes.map(({ bare }) => bare)).toEqual([true, true, false]);
});
