import { expect, test } from "vitest";
import type { Preview } from "../../../src/whole/preview/preview-one.ts";
import { printSummary, summarise, type PlacedPreview } from "../../../src/whole/preview/print.ts";

const preview = (crmCode: string, changes: Partial<Preview> = {}): PlacedPreview => ({
  place: crmCode,
  subject: `contact/${crmCode}`,
  result: "passes",
  crmCode,
  status: "mapped",
  warnings: [],
  problems: [],
  ...changes,
});

const textOf = (...previews: PlacedPreview[]): string => printSummary(summarise(previews));

test("without a Redis, the summary tells what ends from what would be created or updated", () => {
  const ended = preview("b", { status: "terminated" });
  expect(textOf(preview("a"), preview("c"))).toContain(
    "Those that pass would be created or updated; which of them is not known",
  );
  expect(textOf(preview("a"), ended, preview("d", { status: "active" }))).toContain(
    "Of those that pass, 1 would be created or updated, 1 would be terminated, 1 would be made active again; what the service has already is not known",
  );
});

test("with a Redis, the summary says how many of the updates are terminations", () => {
  const ended = preview("b", { status: "terminated", decision: "update" });
  const same = preview("c", { status: "terminated", decision: "skip" });
  expect(textOf(preview("a", { decision: "update" }), ended, same)).toContain(
    "0 would be created, 2 updated (1 of them terminated), 1 need nothing; 2 requests in all",
  );
});
