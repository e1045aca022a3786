import { expect, onTestFinished, test, vi } from "vitest";
import { remainingOf, resetInMs, waitAskedMs } from "../../../src/base/retry-after.ts";

const NOW = Date.parse("2026-11-20T09:30:00.000Z");
const at = (ms: number) => new Date(NOW + ms).toUTCString();
const epoch = (ms: number) => String((NOW + ms) / 1000);

test.for<[string, Record<string, string>, number | undefined]>([
  ["seconds", { "retry-after": "120" }, 120_000],
  ["seconds with blanks", { "retry-after": " 7 " }, 7000],
  ["an HTTP date", { "retry-after": at(90_000) }, 90_000],
  ["an obsolete HTTP date", { "retry-after": "Friday, 20-Nov-26 09:31:00 GMT" }, 60_000],
  [
    "an HTTP date by the service's own clock",
    { "retry-after": at(3_660_000), date: at(3_600_000) },
    60_000,
  ],
  [
    "Retry-After before the reset",
    { "retry-after": "5", "x-ratelimit-reset": epoch(60_000) },
    5000,
  ],
  ["a reset in seconds", { "x-ratelimit-reset": epoch(60_000) }, 60_000],
  ["a reset in milliseconds", { "x-ratelimit-reset": String(NOW + 60_000) }, 60_000],
  ["zero, then a reset", { "retry-after": "0", "x-ratelimit-reset": epoch(2000) }, 2000],
  ["a date that has passed", { "retry-after": at(-1000) }, undefined],
  ["a negative number", { "retry-after": "-30" }, undefined],
  ["more than a day", { "retry-after": "86401" }, undefined],
  ["an exponent", { "retry-after": "1e3" }, undefined],
  ["a word", { "retry-after": "soon" }, undefined],
  ["nothing in it", { "retry-after": "" }, undefined],
  ["a reset that has passed", { "x-ratelimit-reset": epoch(-5000) }, undefined],
  ["a reset that is not a time", { "x-ratelimit-reset": "never" }, undefined],
  ["no header", {}, undefined],
])("A 429 with %s", ([, headers, waitMs]) => {
  expect(waitAskedMs(headers, NOW)).toBe(waitMs);
});

test("A date without a zone is in GMT, wherever the machine is", () => {
  vi.stubEnv("TZ", "Asia/Tokyo");
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(waitAskedMs({ "retry-after": "Fri Nov 20 09:31:00 2026" }, NOW)).toBe(60_000);
});

test("The hour's reset is no wait while requests are left in the hour", () => {
  const reset = String(NOW / 1000 + 3000);
  const asked = (remaining: string) =>
    waitAskedMs(
      { "retry-after": "0", "x-ratelimit-reset": reset, "x-ratelimit-remaining": remaining },
      NOW,
    );
  expect(asked("997")).toBe(undefined);
  expect(asked("0")).toBe(3_000_000);
});

test("A header that came twice counts once", () => {
  expect(waitAskedMs({ "retry-after": ["3", "9"] }, NOW)).toBe(3000);
});

test("The remaining requests are a whole number, or unknown", () => {
  expect(remainingOf({ "x-ratelimit-remaining": "12" })).toBe(12);
  expect(remainingOf({ "x-ratelimit-remaining": "-1" })).toBeUndefined();
  expect(remainingOf({ "x-ratelimit-remaining": "many" })).toBeUndefined();
  expect(remainingOf({})).toBeUndefined();
});

test("A reset more than a day away is not believed", () => {
  expect(resetInMs({ "x-ratelimit-reset": epoch(25 * 3_600_000) }, NOW)).toBeUndefined();
});
