import { expect, test } from "vitest";
import { stopFor, type GuardOptions, type LackingObjects } from "../../../src/reconcile/guards.ts";
import type { Summary } from "../../../src/reconcile/summary.ts";
import { NO_DRIFT } from "../../../src/sync/drift.ts";

const COUNTS = {
  equal: 1000,
  newer: 0,
  waiting: 0,
  ignored: 0,
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
  counts: COUNTS,
  fields: {},
  emptied: {},
  emptiedEverywhere: [],
  unread: [],
  notCarried: {},
  reasons: [],
  leftOut: [],
  understood: {},
};

const EMAIL = { field: "email", variant: "Person", of: 1000 } as const;

type Changes = Partial<Omit<Summary, "counts">> & { counts?: Partial<typeof COUNTS> };

const summary = ({ counts, ...rest }: Changes): Summary => ({
  ...SUMMARY,
  ...rest,
  counts: { ...COUNTS, ...counts },
});

const NO_LEAVE = { terminateMissing: false, maxTerminate: undefined, firstLoad: false };
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
    "a field that no record has, and nobody looks at the plan",
    { emptiedEverywhere: [{ ...EMAIL, relations: 21 }] },
    { ...NO_LEAVE, isUnseen: true },
    "emptied",
  ],
  [
    "a field that no record has, at some relations",
    { emptiedEverywhere: [{ ...EMAIL, relations: 20 }] },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "a field that no record has, and a person looks at the plan",
    { emptiedEverywhere: [{ ...EMAIL, relations: 900 }] },
    NO_LEAVE,
    undefined,
  ],
  [
    "a field that half of a few records lose, and nobody looks at the plan",
    { emptiedEverywhere: [{ ...EMAIL, relations: 2, of: 4 }] },
    { ...NO_LEAVE, isUnseen: true },
    "emptied",
  ],
  [
    "a field that the one record of a snapshot loses",
    { emptiedEverywhere: [{ ...EMAIL, relations: 1, of: 1 }] },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "a field that a person has accepted as lacking",
    { notCarried: { city: 200 }, emptiedEverywhere: [{ ...EMAIL, relations: 900 }] },
    { ...NO_LEAVE, isUnseen: true, accept: ["email", "city"] },
    undefined,
  ],
  [
    "a field that the snapshot does not carry, at one relation",
    { notCarried: { city: 1 } },
    { ...NO_LEAVE, isUnseen: true },
    "not_carried",
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
    "values of a field that are hardly understood, and nobody looks at the plan",
    { understood: { birthDate: { of: 12, used: 2 } } },
    { ...NO_LEAVE, isUnseen: true },
    "not_understood",
  ],
  [
    "nine in ten values of a field that are understood",
    { understood: { birthDate: { of: 10, used: 9 } } },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "values that are not understood, and a person looks at the plan",
    { understood: { birthDate: { of: 12, used: 2 } } },
    NO_LEAVE,
    undefined,
  ],
  [
    "other names for most relations, and nobody looks at the plan",
    { fields: { city: 900, lastName: 501 } },
    { ...NO_LEAVE, isUnseen: true },
    "other_names",
  ],
  [
    "other names for half of them",
    { fields: { lastName: 500, name: 500 } },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "other names for a few relations, which are most",
    { matched: 19, active: 19, fields: { name: 19 } },
    { ...NO_LEAVE, isUnseen: true },
    undefined,
  ],
  [
    "other names that a person has accepted",
    { fields: { name: 900 } },
    { ...NO_LEAVE, isUnseen: true, accept: ["name"] },
    undefined,
  ],
  ["other names, and a person looks at the plan", { fields: { name: 900 } }, NO_LEAVE, undefined],
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
