import { expect, test } from "vitest";
import { compare } from "../../../src/demo/compare.ts";
import { planHour } from "../../../src/demo/hour.ts";
import type { HourOptions } from "../../../src/demo/hour.ts";
import type { Delivery } from "../../../src/demo/timetable.ts";
import { parseEvent } from "../../../src/core/event/crm-event.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { validatePayload } from "../../../src/core/sync/validate.ts";

const START = Date.parse("2026-03-02T09:00:00Z");

const hourOf = (options: Partial<HourOptions> = {}) =>
  planHour({ seed: 1, clients: 200, lengthMs: 60_000, startAt: START, source: "/crm", ...options });

/** The state that follows from the events alone, in the order of their times. */
function replay(deliveries: readonly Delivery[]) {
  const service = new Map<string, Record<string, unknown>>();
  const wrong = new Set<string>();
  const events = new Map(deliveries.map(({ event }) => [event.id, event]));
  const inOrder = [...events.values()].toSorted((a, b) =>
    `${a.time} ${a.sequence}` < `${b.time} ${b.sequence}` ? -1 : 1,
  );
  for (const { subject, type, data } of inOrder) {
    const crmCode = subject.slice("client/".length);
    const checked = validatePayload(data?.record ?? {}, DEFAULT_TENANT_LISTS);
    if (type === "crm.record.deleted") {
      service.set(crmCode, { ...service.get(crmCode), relationStatus: "terminated" });
    } else if (checked.ok) {
      service.set(crmCode, { ...checked.payload });
      wrong.delete(crmCode);
    } else {
      wrong.add(crmCode);
    }
  }
  return { relations: [...service.values()], wrong: wrong.size };
}

test("the same seed gives the same hour, another seed a different one", () => {
  expect(hourOf()).toEqual(hourOf());
  expect(hourOf({ seed: 2 }).deliveries).not.toEqual(hourOf().deliveries);
});

test.each([1, 2, 3, 77, 4_294_967_295])(
  "its events lead to the state that the CRM expects (seed %i)",
  (seed) => {
    const hour = hourOf({ seed });
    const { relations, wrong } = replay(hour.deliveries);
    expect(compare(hour.expected, relations)).toEqual([]);
    expect(hour.expectedDeadLetters).toBe(wrong);
  },
);

test("every event is a valid CloudEvent", () => {
  for (const { event } of hourOf().deliveries) {
    expect(parseEvent(event, START).ok, JSON.stringify(event)).toBe(true);
  }
});

test("the hour contains every kind of change", () => {
  const { deliveries, events, expected, expectedDeadLetters } = hourOf();
  expect(events).toBeGreaterThan(600);
  expect(deliveries.length).toBeGreaterThan(events);
  expect(new Set(deliveries.map(({ route }) => route)).size).toBe(3);
  const types = new Set(deliveries.map(({ event }) => event.type));
  expect([...types].toSorted()).toEqual(
    ["created", "deleted", "restored", "updated"].map((what) => `crm.record.${what}`),
  );
  expect(deliveries.some(({ event }) => event.type.endsWith("deleted") && !event.data)).toBe(true);
  expect(expectedDeadLetters).toBeGreaterThan(3);
  const outcomes = [...expected.values()];
  expect(outcomes.some(({ relation }) => relation === undefined)).toBe(true);
  expect(outcomes.some(({ relation }) => relation?.["relationStatus"] === "terminated")).toBe(true);
});

test("some events arrive after newer ones of the same record, and some twice", () => {
  const { deliveries } = hourOf();
  const newest = new Map<string, string>();
  const overtaken = deliveries.filter(({ event: { subject, time } }) => {
    const before = newest.get(subject) ?? "";
    if (time > before) newest.set(subject, time);
    return time < before;
  });
  expect(overtaken.length).toBeGreaterThan(5);
});

test("some records are edited dozens of times within seconds", () => {
  const { deliveries } = hourOf();
  const edits = Map.groupBy(deliveries, ({ event }) => event.subject);
  const storms = [...edits.values()].filter((all) => {
    const times = all.map(({ event }) => Date.parse(event.time)).toSorted((a, b) => a - b);
    return times.some((time, i) => (times[i + 30] ?? Number.POSITIVE_INFINITY) - time < 1000);
  });
  expect(storms.length).toBeGreaterThan(1);
});

test("all deliveries fall within the length of the hour", () => {
  for (const lengthMs of [5000, 60_000, 3_600_000]) {
    const { deliveries } = hourOf({ lengthMs, clients: 60 });
    expect(deliveries.at(-1)?.atMs).toBeLessThanOrEqual(lengthMs);
  }
});

test("one client is enough for an hour", () => {
  expect(hourOf({ clients: 1 }).deliveries.length).toBeGreaterThan(0);
});
