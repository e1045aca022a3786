import { expect, it } from "vitest";
import type { Slice } from "../../../src/core/state/outcomes.ts";
import { rejectionFindings } from "../../../src/operate/status/change-findings.ts";
import { rejectionsIn } from "../../../src/operate/status/slowness.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOW = Date.parse("2026-11-21T14:30:30Z");

/** One slice, `ago` minutes before the present one. */
const minute = (ago: number, counts: Record<string, number>): Slice => ({
  since: Math.floor(NOW / MINUTE - ago) * MINUTE,
  counts,
});

const checked = (role: string, passed: number, rejected: number, why = "invalid birthDate") => ({
  [`checked ${role} passed`]: passed,
  [`checked ${role} rejected`]: rejected,
  [`rejected ${why}`]: rejected,
});

const found = (...slices: Slice[]) => rejectionsIn(slices, NOW, HOUR);
const says = (...slices: Slice[]) => rejectionFindings(found(...slices)).map((one) => one.says);

it("names the share, since when, and the field of most, however good it was before", () => {
  const good = Array.from({ length: 30 }, (_, n) => minute(59 - n, checked("intake", 50, 1)));
  const bad = [
    minute(28, checked("intake", 6, 29)),
    minute(10, checked("intake", 3, 20)),
    minute(1, checked("intake", 1, 10, "unmappable crmCode")),
  ];
  expect(says(...good, ...bad)).toEqual([
    "86 % of the changes since 2026-11-21T14:02:00Z were rejected (59 of 69), most for birthDate (invalid): crmsync dead list --field birthDate.",
  ]);
});

it("of one role, the good changes of the other do not count", () => {
  const slice = minute(2, {
    ...checked("sync", 5, 15, "service_rejected none"),
    ...checked("intake", 500, 0),
  });
  expect(says(slice)).toEqual([
    "75 % of the changes sent since 2026-11-21T14:28:00Z were rejected (15 of 20), all for service_rejected: crmsync dead list --reason service_rejected.",
  ]);
});

it("says so when no reason has most of them", () => {
  const counts = {
    ...checked("intake", 0, 12),
    "rejected invalid birthDate": 5,
    "rejected invalid email": 4,
    "rejected unmappable crmCode": 3,
  };
  expect(says(minute(0, counts))[0]).toContain(
    "for several reasons, most often birthDate (invalid), 5 times",
  );
});

it("a few rejected changes, or a small share, are nothing", () => {
  expect(found(minute(1, checked("intake", 0, 9)))).toEqual([]);
  expect(found(minute(1, checked("intake", 90, 20)))).toEqual([]);
  expect(found(minute(1, checked("intake", 0, 10)))).toHaveLength(1);
});

it("is over when the changes of the last minutes pass again", () => {
  const bad = minute(20, checked("intake", 0, 100));
  expect(found(bad)).toHaveLength(1);
  expect(found(bad, minute(1, checked("intake", 3, 1)))).toHaveLength(1);
  expect(found(bad, minute(1, checked("intake", 4, 0)))).toEqual([]);
});

it("stays over when nothing more is checked", () => {
  const bad = minute(40, checked("intake", 0, 100));
  expect(found(bad)).toHaveLength(1);
  expect(found(bad, minute(30, checked("intake", 4, 0)))).toEqual([]);
  expect(found(bad, minute(30, checked("intake", 3, 1)))).toHaveLength(1);
});

it("reads names that another version wrote without a fault", () => {
  const counts = { ...checked("intake", 0, 20, "something_new field"), created: 3 };
  expect(found(minute(0, counts))).toEqual([]);
});
