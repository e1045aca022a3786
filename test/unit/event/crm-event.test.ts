import { describe, expect, it } from "vitest";
import { parseEvent, splitSubject } from "../../../src/core/event/crm-event.ts";

const NOW = Date.parse("2026-11-20T12:00:00Z");
const event = {
  specversion: "1.0",
  id: "7f0c",
  source: "/crm/acme",
  type: "crm.record.updated",
  subject: "contact/4711",
  time: "2026-11-20T09:30:11.902Z",
  data: { record: { type: "Person" } },
};

const problemFields = (value: unknown) => {
  const parsed = parseEvent(value, NOW);
  return parsed.ok ? [] : parsed.problems.map(({ field }) => field);
};

describe("parseEvent", () => {
  it("accepts the documented event, and keeps its extensions", () => {
    expect(parseEvent({ ...event, traceparent: "00-1" }, NOW)).toMatchObject({
      ok: true,
      event: { lane: "live", traceparent: "00-1" },
    });
  });

  it.each([
    ["specversion", { specversion: "0.3" }],
    ["id", { id: "" }],
    ["id", { id: 7 }],
    ["source", { source: undefined }],
    ["type", { type: "crm.record.changed" }],
    ["subject", { subject: "4711" }],
    ["subject", { subject: "contact/" }],
    ["time", { time: "2026-11-20" }],
    ["time", { time: "0001-01-01T00:00:00Z" }],
    ["time", { time: "1970-01-01T00:00:00Z" }],
    ["data.record.name", { data: { record: { name: "M\ufffdller" } } }],
    ["time", { time: "2026-11-22T12:00:00Z" }],
    ["sequence", { sequence: 3 }],
    ["sequence", { sequence: "0001a", sequencetype: "Integer" }],
    ["sequence", { sequence: "1.5", sequencetype: "Integer" }],
    ["lane", { lane: "fast" }],
    ["data.record", { data: {} }],
    ["data.record", { data: { record: [] } }],
    ["data.merged", { type: "crm.record.merged" }],
  ])("names %s when it is invalid: %o", (field, change) => {
    expect(problemFields({ ...event, ...change })).toEqual([field]);
  });

  it("reads an attribute that is null as absent", () => {
    const nulls = { sequence: null, lane: null, time: null, traceparent: null };
    const parsed = parseEvent({ ...event, ...nulls }, NOW);
    expect(parsed).toEqual(parseEvent({ ...event, time: undefined }, NOW));
    expect(parsed).toMatchObject({ ok: true, event: { lane: "live" } });
    expect(problemFields({ ...event, type: "crm.record.deleted", data: null })).toEqual([]);
    expect(problemFields({ ...event, id: null })).toEqual(["id"]);
  });

  it("says in words of the event what is wrong", () => {
    const rulesOf = (data: unknown) => {
      const parsed = parseEvent({ ...event, type: "crm.record.merged", data }, NOW);
      return parsed.ok ? [] : parsed.problems.map(({ field, rule }) => `${field} ${rule}`);
    };
    expect(rulesOf({ record: {}, merged: ["4711"] })).toEqual([
      "data.merged[0] must be <object>/<recordId>",
    ]);
    expect(rulesOf({ record: 5, merged: ["contact/1"] })).toEqual([
      "data.record must be an object",
    ]);
  });

  it.each([null, [], "event", 7])("rejects %o", (value) => {
    expect(problemFields(value)).toEqual([""]);
  });

  it("needs no record for a deletion or a restoration", () => {
    expect(problemFields({ ...event, type: "crm.record.deleted", data: undefined })).toEqual([]);
    expect(problemFields({ ...event, type: "crm.record.restored", data: {} })).toEqual([]);
  });
});

it("splits a subject at its first slash", () => {
  expect(splitSubject("contact/a/b")).toEqual({ object: "contact", recordId: "a/b" });
});
