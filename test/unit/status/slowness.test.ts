import { expect, it } from "vitest";
import { durationName } from "../../../src/base/duration-buckets.ts";
import type { Slice } from "../../../src/core/state/outcomes.ts";
import { slownessFindings } from "../../../src/operate/status/change-findings.ts";
import { slownessIn } from "../../../src/operate/status/slowness.ts";

const MINUTE = 60_000;
const NOW = Date.parse("2026-11-21T14:30:30Z");

const replies = (ms: number, count: number) => ({ [durationName(ms)]: count });

const minute = (ago: number, counts: Record<string, number>): Slice => ({
  since: Math.floor(NOW / MINUTE - ago) * MINUTE,
  counts,
});

/** The hours count what the minutes count, and what was before. */
function found(before: Record<string, number>, ...minutes: Slice[]) {
  const hours = [{ since: 0, counts: before }, ...minutes];
  return slownessIn(minutes, hours);
}

it("names since when, how slow, and what is usual", () => {
  const fast = Array.from({ length: 40 }, (_, n) => minute(50 - n, replies(100, 10)));
  const slow = Array.from({ length: 10 }, (_, n) => minute(9 - n, replies(3000, 4)));
  const [finding] = slownessFindings(found(replies(100, 5000), ...fast, ...slow));
  expect(finding?.says).toMatch(
    /^The service has been slow since 2026-11-21T14:21:00Z: half of its replies take 2\.9 s or longer; usual are 0\.11 s\.$/,
  );
});

it("is found within a minute, by a few replies", () => {
  const fast = minute(1, replies(100, 30));
  expect(found({}, fast, minute(0, replies(3000, 5)))).toBeDefined();
  expect(found({}, fast, minute(0, replies(3000, 4)))).toBeUndefined();
});

it("lasts although most of the day's replies are slow by now", () => {
  const slow = Array.from({ length: 30 }, (_, n) => minute(29 - n, replies(3000, 10)));
  expect(found({}, minute(40, replies(100, 25)), ...slow)?.since).toBe(slow[0]?.since);
});

it("is over with the first minutes of usual replies", () => {
  const slow = Array.from({ length: 10 }, (_, n) => minute(12 - n, replies(3000, 10)));
  expect(found(replies(100, 500), ...slow, minute(0, replies(100, 6)))).toBeUndefined();
});

it("is over with the first quick reply, and when none came for ten minutes", () => {
  const slow = Array.from({ length: 10 }, (_, n) => minute(22 - n, replies(3000, 10)));
  const hours = [{ since: 0, counts: replies(100, 500) }, ...slow];
  expect(slownessIn(slow, hours, NOW - 15 * MINUTE)).toBeDefined();
  expect(slownessIn(slow, hours, NOW - 10 * MINUTE)).toBeUndefined();
  expect(found(replies(100, 500), ...slow, minute(0, replies(100, 1)))).toBeUndefined();
});

it.each([
  ["20 ms instead of 5: too short to matter", replies(5, 500), replies(20, 50)],
  ["2 s where 1.5 s are usual", replies(1500, 500), replies(2000, 50)],
  ["too few replies to know what is usual", replies(100, 19), replies(3000, 50)],
  ["no reply at all", {}, {}],
])("%s", (_, before, now) => {
  expect(found(before, minute(0, now))).toBeUndefined();
});
