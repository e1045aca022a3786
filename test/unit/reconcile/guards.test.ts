import { expect, test } from "vitest";
import {
  stopFor,
  type GuardOptions,
  type LackingObjects,
} from "../../../src/whole/reconcile/guards.ts";
import type { Summary } from "../../../src/whole/reconcile/summary.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";
import { tenantProblems, unlistedValue } from "../../../src/core/sync/validate.ts";

const COUNTS = {
  equal: 1000,
  newer: 0,
  waiting: 0,
  ignored: 0,
  foreign: 0,
  ...NO_DRIFT,
};

const SUMMARY: Summary = {
  records: 1000,
  nameless: 0,
  skipped: 0,
  encoding: "utf-8",
  repeated: 0,
  codes: 1000,
  matched: 1000,
  relations: 1000,
  active: 1000,
  lacking: 0,
  foreign: 0,
  counts: COUNTS,
  fields: [],
  unread: [],
  reasons: [],
  leftOut: [],
};

/** Of a field of a person; what is not given is equal. */
function email(compared: number, found: { changed?: number; emptied?: number; kept?: number }) {
  const { changed = 0, emptied = 0, kept: notUnderstood = 0 } = found;
  const equal = compared - changed - emptied - notUnderstood;
  const counts = { compared, equal, changed, emptied, notUnderstood };
  return { field: "email", variant: "Person", ...counts, examples: ["p1", "p2"] } as const;
}

type Changes = Partial<Omit<Summary, "counts">> & { counts?: Partial<typeof COUNTS> };

const summary = ({ counts, ...rest }: Changes): Summary => ({
  ...SUMMARY,
  ...rest,
  counts: { ...COUNTS, ...counts },
});

const NO_LEAVE = { terminateMissing: false, maxTerminate: undefined, firstLoad: false };
const UNSEEN = { ...NO_LEAVE, isUnseen: true };
const MISSING = { ...NO_LEAVE, terminateMissing: true };

test.for([
  ["everything equal", {}, MISSING, undefined],
  [
    "a first load into an empty service",
    { matched: 0, relations: 0, active: 0 },
    NO_LEAVE,
    undefined,
  ],
  ["a service that has hardly any relation", { matched: 0, active: 19 }, NO_LEAVE, undefined],
  ["strangers for a service with a few more", { matched: 0, active: 20 }, NO_LEAVE, "other_crm"],
  ["some relations that are gone", { lacking: 20 }, NO_LEAVE, undefined],
  ["a list that ends early", { lacking: 21 }, NO_LEAVE, "short_list"],
  [
    "a list that ends early, of hardly any relation",
    { matched: 1, lacking: 999, relations: 1 },
    { ...NO_LEAVE, firstLoad: true },
    "short_list",
  ],
  ["1 % that is gone", { relations: 9900, lacking: 100 }, NO_LEAVE, undefined],
  [
    "strangers for a small service, and nobody looks at the plan",
    { matched: 0, active: 15 },
    { ...NO_LEAVE, isUnseen: true },
    "other_crm",
  ],
  [
    "one that is known to a small service, and nobody looks at the plan",
    { matched: 1, active: 15 },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "a few new records, and nobody looks at the plan",
    { matched: 0, active: 15, records: 15, codes: 15 },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "a first load that nobody looks at",
    { matched: 0, relations: 0, active: 0 },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "a field that changes on more than 10 %",
    { fields: [email(1000, { changed: 101 })] },
    UNSEEN,
    "fields",
  ],
  ["a field that changes on 10 %", { fields: [email(1000, { changed: 100 })] }, UNSEEN, undefined],
  [
    "a field that changes on more than 5 of a few",
    { fields: [email(6, { changed: 6 })] },
    UNSEEN,
    "fields",
  ],
  ["a field that changes on 5 of a few", { fields: [email(5, { changed: 5 })] }, UNSEEN, undefined],
  ["a field that is emptied", { fields: [email(60, { emptied: 7 })] }, UNSEEN, "fields"],
  ["a field that is hardly understood", { fields: [email(60, { kept: 7 })] }, UNSEEN, "fields"],
  [
    "all three together",
    { fields: [email(60, { changed: 3, emptied: 2, kept: 2 })] },
    UNSEEN,
    "fields",
  ],
  [
    "all three together, on 10 %",
    { fields: [email(60, { changed: 2, emptied: 2, kept: 2 })] },
    UNSEEN,
    undefined,
  ],
  [
    "a field that a person has accepted",
    { fields: [email(60, { changed: 60 })] },
    { ...UNSEEN, accept: ["city", "email"] },
    undefined,
  ],
  [
    "another field than a person has accepted",
    { fields: [email(60, { changed: 60 })] },
    { ...UNSEEN, accept: ["city"] },
    "fields",
  ],
  [
    "a field that changes, and a person looks at the plan",
    { fields: [email(60, { changed: 60 })] },
    NO_LEAVE,
    undefined,
  ],
  ["another CRM", { matched: 99 }, NO_LEAVE, "other_crm"],
  ["a tenth of the service's relations", { matched: 100 }, NO_LEAVE, undefined],
  ["the snapshot of one object more", { matched: 0 }, { ...NO_LEAVE, firstLoad: true }, undefined],
  [
    "a part of the CRM",
    { records: 30, codes: 30, matched: 30, counts: { extra: 970 } },
    NO_LEAVE,
    undefined,
  ],
  [
    "records that hardly any can be used",
    { counts: { invalid: 300, unmappable: 300 } },
    NO_LEAVE,
    "unusable",
  ],
  ["half of the records, which cannot be used", { counts: { invalid: 500 } }, NO_LEAVE, undefined],
  ["hardly more than half", { counts: { unmappable: 501 } }, NO_LEAVE, "unusable"],
  ["a few, all not usable", { records: 19, counts: { invalid: 19 } }, NO_LEAVE, undefined],
  ["a few more, all not usable", { records: 20, counts: { invalid: 20 } }, NO_LEAVE, "unusable"],
  [
    "too many relations that the CRM does not have",
    { counts: { extra: 21 } },
    MISSING,
    "terminations",
  ],
  ["as many as are allowed", { counts: { extra: 20 } }, MISSING, undefined],
  ["1 % of many", { active: 10_000, counts: { extra: 100 } }, MISSING, undefined],
  ["more than 1 % of many", { active: 10_000, counts: { extra: 101 } }, MISSING, "terminations"],
  ["hardly more than 1 %", { active: 2050, counts: { extra: 21 } }, MISSING, "terminations"],
  ["exactly 1 %", { active: 5700, counts: { extra: 57 } }, MISSING, undefined],
  ["a broken export that ends 30 %", { counts: { ended: 300 } }, NO_LEAVE, "terminations"],
  ["both kinds together", { counts: { ended: 11, extra: 10 } }, MISSING, "terminations"],
  ["an allowed number", { counts: { ended: 300 } }, { ...NO_LEAVE, maxTerminate: 300 }, undefined],
  [
    "more than the allowed number",
    { counts: { ended: 301 } },
    { ...NO_LEAVE, maxTerminate: 300 },
    "terminations",
  ],
  ["none allowed", { counts: { ended: 1 } }, { ...NO_LEAVE, maxTerminate: 0 }, "terminations"],
  [
    "a CRM that lists no record of an object",
    { counts: { extra: 1 } },
    { ...MISSING, emptyObjects: ["company"] },
    "empty",
  ],
  ["the same without terminations", {}, { ...NO_LEAVE, emptyObjects: ["company"] }, undefined],
  [
    "an export without one of the objects",
    { counts: { extra: 1 } },
    { ...MISSING, absentObjects: ["company"] },
    "terminations",
  ],
  [
    "the same with an allowed number",
    { counts: { extra: 1 } },
    { ...MISSING, maxTerminate: 1, absentObjects: ["company"] },
    undefined,
  ],
  [
    "an export without one of the objects, and records that end",
    { counts: { ended: 1, extra: 1 } },
    { ...NO_LEAVE, absentObjects: ["company"] },
    undefined,
  ],
  ["records without a crmCode, and no end for it", { nameless: 1 }, NO_LEAVE, undefined],
  ["records without a crmCode", { nameless: 1, counts: { extra: 1 } }, MISSING, "nameless"],
] as const)("%s", ([, changes, options, why]) => {
  const given: GuardOptions & LackingObjects = options;
  expect(stopFor(summary(changes), given, given)?.why).toBe(why);
});

test("a stop for a part of the CRM says so, unless the number was given", () => {
  const options = { ...MISSING, absentObjects: ["company"] };
  const says = (maxTerminate: number | undefined) =>
    stopFor(summary({ counts: { extra: 2 } }), { ...options, maxTerminate }, options)?.says;
  expect(says(undefined)).toContain("because the snapshot has no company");
  expect(says(1)).not.toContain("because");
});

test("a stop for a field tells its numbers, examples and the option", () => {
  const fields = [email(60, { changed: 50, emptied: 8 })];
  const stop = stopFor(summary({ fields }), UNSEEN, {});
  expect(stop?.says).toContain(
    "email is not equal on 58 of 60 relations of type Person (50 changed, 8 emptied), as p1, p2:",
  );
  expect(stop?.says).toMatch(/--show-values.*--accept email$/);
});

test("records that cannot be used are told with the most frequent reason, and what follows from it", () => {
  const says = (field: string, rule: string, value?: string) =>
    stopFor(
      summary({
        counts: { invalid: 750 },
        reasons: [{ field, rule, kind: "", value, count: 740 }],
      }),
      NO_LEAVE,
      {},
    )?.says;
  const list = { values: new Set(["geneva"]), isRequired: false, multiSelect: true };
  const lists = new Map([["branch", list]]);
  const [problem] = tenantProblems({ branch: ["zurich"] }, "Person", lists);
  expect(problem && unlistedValue(problem, { branch: ["zurich"] })).toBe("zurich");
  expect(says("branch", problem?.rule ?? "", "zurich")).toBe(
    '750 of 1000 records cannot be used, most often because branch "zurich": not on the tenant\'s list (740): correct the mapping or the export, or have the tenant allow the value',
  );
  // An address is no item of a list, and no other field shows its value.
  const [address] = tenantProblems({ branch: ["ada@muster.example"] }, "Person", lists);
  expect(address && unlistedValue(address, { branch: ["ada@muster.example"] })).toBeUndefined();
  const required = { field: "lastName", rule: "is required", kind: "nothing" };
  expect(unlistedValue(required, { lastName: "Muster" })).toBeUndefined();
  expect(says("branch", "must be one of the tenant's values (see schema-config)")).toBe(
    "750 of 1000 records cannot be used, most often because branch must be one of the tenant's values (see schema-config) (740): correct the mapping or the export, or have the tenant allow the value",
  );
  expect(says("lastName", "is required")).toMatch(
    /most often because lastName is required \(740\): the export has other columns/,
  );
});
