import { describe, expect, it } from "vitest";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { bodyOf } from "../../../src/core/sync/decide.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { type Mapped, type RecordChange } from "../../../src/core/sync/mapped.ts";
import { crmToFetchFrom } from "../../../src/core/sync/map-change.ts";
import { planChange, type Plan } from "../../../src/core/sync/plan-change.ts";

const SUBJECT = "contact/1";

/** A change of the record `contact/1`, or of a record that was merged into it (`subject`). */
const change = (
  what: "created" | "updated" | "deleted" | "restored" | "merged",
  data: RecordChange["event"]["data"] = {},
  subject = SUBJECT,
): RecordChange => ({ event: { type: `crm.record.${what}`, subject: SUBJECT, data }, subject });

const updated = change("updated");
const deleted = change("deleted");
const restored = change("restored");
/** Its fields are older than the event that decides its status. */
const ended: RecordChange = { ...updated, status: "terminated" };
const again: RecordChange = { ...deleted, status: "active" };
const mergedAway = change("merged", {}, "contact/2");

const candidate = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" };
const payload = {
  ...candidate,
  relationshipStatus: "Client",
  relationStatus: "active",
  amlFrequency: "ongoing",
};
const problem = { field: "crmCode", rule: "is required", kind: "nothing" };

const ignored: Mapped = { kind: "ignored", reason: "when", crmCode: "1" };
const left: Mapped = { ...ignored, whens: "w", onLeave: "terminate" };
const leftWithoutKey: Mapped = { kind: "ignored", reason: "when", onLeave: "terminate" };
const withoutRecord: Mapped = { kind: "mapped", crmCode: "1", candidate: undefined };
const valid: Mapped = { kind: "mapped", crmCode: "1", candidate };
const invalid: Mapped = { kind: "mapped", crmCode: "1", candidate: { ...candidate, lastName: "" } };
const noKey: Mapped = { kind: "unmappable", crmCode: undefined, problems: [problem] };
const onlyKey: Mapped = { kind: "unmappable", crmCode: "1", problems: [problem] };

const staged = (
  status: "mapped" | "terminated" | "active",
  body: typeof payload | undefined,
): Plan => ({
  kind: "stage",
  crmCode: "1",
  status,
  payload: body as Extract<Plan, { kind: "stage" }>["payload"],
  fingerprint: body && fingerprintOf(bodyOf(body, status)),
  notUnderstood: [],
  variant: body && "Person",
});
const leaving = { ...staged("terminated", undefined), leaves: "when", whens: "w" } as Plan;
const ignore = (crmCode: string | undefined, whens?: string): Plan => {
  return { kind: "ignore", reason: "when", crmCode, whens };
};
const unmappable = (crmCode: string | undefined): Plan => {
  return { kind: "reject", reason: "unmappable", crmCode, problems: [problem] };
};
const invalidName: Plan = {
  kind: "reject",
  reason: "invalid",
  crmCode: "1",
  problems: [{ field: "lastName", rule: "must not be empty", kind: "an empty string" }],
};

describe("planChange", () => {
  it.each<[string, RecordChange, Mapped, Plan]>([
    ["a record that the mapping ignores", updated, ignored, ignore("1")],
    ["one for its rules", updated, { ...ignored, whens: "w" }, ignore("1", "w")],
    ["a deletion that the mapping ignores", deleted, ignored, ignore("1")],
    ["one that a later event has ended", ended, ignored, staged("terminated", undefined)],
    [
      "one without a key that a later event has ended",
      ended,
      { kind: "ignored", reason: "when" },
      ignore(undefined),
    ],
    ["one that a later event has restored", again, ignored, ignore("1")],
    [
      "a record that leaves, and keeps its relation",
      updated,
      { ...ignored, onLeave: "keep" },
      ignore("1"),
    ],
    ["a record that leaves", updated, left, leaving],
    ["a record that leaves, without a key", updated, leftWithoutKey, ignore(undefined)],
    ["a valid record", updated, valid, staged("mapped", payload)],
    ["an unmappable record without a key", updated, noKey, unmappable(undefined)],
    ["an unmappable record with a key", updated, onlyKey, unmappable("1")],
    ["an unmappable deletion without a key", deleted, noKey, unmappable(undefined)],
    ["an unmappable deletion with a key", deleted, onlyKey, staged("terminated", undefined)],
    ["an invalid payload", updated, invalid, invalidName],
    ["an invalid payload of a deletion", deleted, invalid, staged("terminated", undefined)],
    ["a deletion with its record", deleted, valid, staged("terminated", payload)],
    ["a deletion without its record", deleted, withoutRecord, staged("terminated", undefined)],
    ["a record that a later event has ended", ended, valid, staged("terminated", payload)],
    ["its invalid payload", ended, invalid, staged("terminated", undefined)],
    ["a deletion that a later event has undone", again, valid, staged("active", payload)],
    ["its invalid payload after that", again, invalid, invalidName],
    ["a restored record without fields", restored, withoutRecord, staged("active", undefined)],
    ["a restored record with its fields", restored, valid, staged("mapped", payload)],
    ["an invalid payload of a restored record", restored, invalid, invalidName],
    ["the surviving record of a merge", change("merged"), valid, staged("mapped", payload)],
    ["a record that was merged away", mergedAway, withoutRecord, staged("terminated", undefined)],
    [
      "an unmappable record with a key that was merged away",
      mergedAway,
      onlyKey,
      staged("terminated", undefined),
    ],
    [
      "an unmappable record without a key that was merged away",
      mergedAway,
      noKey,
      unmappable(undefined),
    ],
  ])("%s", (_title, change, mapped, plan) => {
    expect(planChange(change, mapped, DEFAULT_TENANT_LISTS, fingerprintOf)).toEqual(plan);
  });

  it("what the event says of the status counts, also where the mapping does not understand it", () => {
    const unclear = { ...valid, notUnderstood: ["email", "relationStatus"] };
    const keptBy = (change: RecordChange) =>
      planChange(change, unclear, DEFAULT_TENANT_LISTS, fingerprintOf);
    expect(keptBy(updated)).toMatchObject({ notUnderstood: ["email", "relationStatus"] });
    for (const change of [deleted, restored, again]) {
      expect(keptBy(change)).toMatchObject({ notUnderstood: ["email"] });
    }
  });

  it("the fingerprint of a deletion with its record is that of the terminated body", () => {
    const plan = planChange(deleted, valid, DEFAULT_TENANT_LISTS, fingerprintOf);
    const terminated = { ...payload, relationStatus: "terminated" };
    expect(plan).toMatchObject({ fingerprint: fingerprintOf(terminated) });
    expect(fingerprintOf(terminated)).not.toBe(fingerprintOf(payload));
  });
});

describe("crmToFetchFrom", () => {
  const fetch = "hubspot";
  const record = { id: "1" };
  it.each<[string, RecordChange, string | undefined]>([
    ["a thin event", change("updated", { fetch }), fetch],
    ["a thin deletion", change("deleted", { fetch }), fetch],
    ["the surviving record of a thin merge", change("merged", { fetch }), fetch],
    ["an event with its record", change("updated", { record }), undefined],
    [
      "an event with its record that also names a CRM",
      change("updated", { record, fetch }),
      undefined,
    ],
    [
      "an event without data",
      { event: { ...updated.event, data: undefined }, subject: SUBJECT },
      undefined,
    ],
    ["a deletion without a record that names no CRM", deleted, undefined],
    [
      "a record that was merged away by a thin merge",
      change("merged", { fetch }, "contact/2"),
      undefined,
    ],
  ])("%s", (_title, change, crm) => {
    expect(crmToFetchFrom(change, [])).toBe(crm);
    expect(crmToFetchFrom(change, ["company", "Contact"])).toBe(crm);
    // What the mapping has no rule for is not worth a request to the CRM.
    expect(crmToFetchFrom(change, ["company"])).toBeUndefined();
  });

  it("an object is the same in upper and lower case", () => {
    const contact = "Contact/1";
    const event = { ...change("updated", { fetch }).event, subject: contact };
    expect(crmToFetchFrom({ event, subject: contact }, ["contact"])).toBe(fetch);
  });
});
