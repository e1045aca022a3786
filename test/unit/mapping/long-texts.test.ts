/** Very long texts of a record must not make an expression slow. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withoutNulls } from "../../../src/intake/mapping/clean.ts";
import { FIELD_MAX_LENGTH } from "../../../src/core/sync/mapped.ts";

const MAPPINGS = join(import.meta.dirname, "../../../mappings");

/** The regular expressions of the presets. */
const used = ["espocrm", "salesforce"].flatMap((name) =>
  [
    ...readFileSync(join(MAPPINGS, `${name}.yaml`), "utf8").matchAll(/\$replace\(\w+, \/(.+)\/, /g),
  ].map(([, pattern = ""]) => pattern),
);

/** Processor time for a text of so many blanks that contains no line break, µs; the least of five. */
function costOf(pattern: string, blanks: number): number {
  const text = `x${" ".repeat(blanks)}y`;
  const regex = new RegExp(pattern, "g");
  const times = Array.from({ length: 5 }, () => {
    const before = process.threadCpuUsage();
    text.replace(regex, ", ");
    return process.threadCpuUsage(before).user;
  });
  return Math.min(...times);
}

test("the presets join the lines of an address", () => {
  expect(used).toHaveLength(5);
  for (const pattern of used) {
    const joined = "12, rue X \r\n  Bât. B\n\n\tL-1\u00a0\n".replace(
      new RegExp(pattern, "g"),
      ", ",
    );
    expect(joined).toBe("12, rue X, Bât. B, L-1, ");
  }
});

test("the presets' expressions take twice the time for twice the text, not four times", () => {
  for (const pattern of new Set(used)) {
    // A quadratic one needs 100 times the work for this, a linear one 10 times.
    expect(costOf(pattern, 60_000)).toBeLessThan(50 * Math.max(costOf(pattern, 6000), 100));
  }
  expect(costOf("\\s*[\\r\\n]+\\s*", 20_000)).toBeGreaterThan(10_000);
});

test("a text is cut where no field can take it, and is still too long for every field", () => {
  const record = { notes: ["x".repeat(1_000_000)], name: "y".repeat(FIELD_MAX_LENGTH), no: null };
  const { notes, name, ...rest } = withoutNulls(record) as { notes: string[]; name: string };
  expect(notes[0]?.length).toBe(FIELD_MAX_LENGTH + 1);
  expect(name).toBe(record.name);
  expect(rest).toEqual({});
});
