import { describe, expect, test } from "vitest";
import { FORMATS, type FormatName } from "../../../src/sandbox/formats.ts";
import { COUNTRY_CODES, LANGUAGE_CODES } from "../../../src/sandbox/iso-codes.ts";

const LONGEST = `https://example.com/${"a".repeat(100_000)}`;

describe.each<{ name: FormatName; holds: string[]; fails: string[] }>([
  {
    name: "date",
    holds: ["2024-02-29", "2000-02-29", "1900-12-31", "9999-12-31"],
    fails: ["1900-02-29", "2023-04-31", "2024-00-01", "2024-13-01", "2024-01-00", "24-01-01"],
  },
  {
    name: "uuid",
    holds: ["00000000-0000-0000-0000-000000000000", "0190C3A4-7F2E-7B5C-9D1E-3F4A5B6C7D8E"],
    fails: ["{0190c3a4-7f2e-7b5c-9d1e-3f4a5b6c7d8e}", "0190c3a4-7f2e-7b5c-9d1e-3f4a5b6c7d8e\n"],
  },
  {
    name: "email",
    holds: ["a@b.ch", "first.last@sub.example.com", "1@2.co"],
    fails: ["a..b@example.com", ".a@example.com", "a@-example.com", "a@example..com", "a@b c.com"],
  },
  {
    name: "uri",
    holds: ["https://example.com", "mailto:a@b.ch", "file:///a", "https://a@[::1]:80/", LONGEST],
    fails: [
      "https:example.com",
      "http:///x",
      "https://exämple.com",
      "a:%zz",
      "1a:b",
      "a b:c",
      "x:#a#b",
      "https://example.com/a[1]",
      "https://example.com/?a[]=1",
      "https://a[b@example.com/",
      "dms://[",
      "https://[::1]]/",
    ],
  },
])("$name", ({ name, holds, fails }) => {
  test.each(holds)("holds for %.60s", (text) => {
    expect(FORMATS[name].holds(text)).toBe(true);
  });
  test.each(fails)("fails for %j", (text) => {
    expect(FORMATS[name].holds(text)).toBe(false);
  });
});

// With backtracking, this test would run into its timeout.
test("hostile texts are checked in linear time", () => {
  expect(FORMATS.email.holds(`a@${"a-".repeat(200_000)}!`)).toBe(false);
  expect(FORMATS.email.holds(`${"a.".repeat(200_000)}@`)).toBe(false);
  expect(FORMATS.uri.holds(`a:${"%20".repeat(200_000)}%`)).toBe(false);
});

describe("ISO codes", () => {
  test("are all officially assigned codes", () => {
    expect(COUNTRY_CODES.size).toBe(249);
    expect(LANGUAGE_CODES.size).toBe(183);
  });

  // Two independent sources: our list and the Unicode data in Node.
  test("have a name in the Unicode data", () => {
    const regions = new Intl.DisplayNames("en", { type: "region", fallback: "none" });
    const languages = new Intl.DisplayNames("en", { type: "language", fallback: "none" });
    expect([...COUNTRY_CODES].filter((code) => regions.of(code) === undefined)).toEqual([]);
    expect([...LANGUAGE_CODES].filter((code) => languages.of(code) === undefined)).toEqual([]);
  });
});
