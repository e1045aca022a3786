import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { logEventsReference } from "../../../deploy/log-events-reference.ts";

it("docs/log-events.md is up to date (node deploy/generate.ts)", () => {
  const file = join(import.meta.dirname, "../../../docs/log-events.md");
  expect(readFileSync(file, "utf8")).toBe(logEventsReference());
});
