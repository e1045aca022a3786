import { join } from "node:path";
import { expect, it } from "vitest";
import { LOG_EVENTS } from "../../../src/ops/log-events.ts";
import { readSources } from "../../support/imports.ts";

/** The logger's type guarantees the other direction: the code names no event outside of the table. */
it("every event of the table is used in the code", () => {
  const files = readSources(join(import.meta.dirname, "../../.."), ["src", "workers"]);
  const sources = files.filter(({ path }) => path !== "src/ops/log-events.ts");
  expect(sources.length).toBe(files.length - 1);
  const unused = Object.keys(LOG_EVENTS).filter(
    (event) => !sources.some(({ text }) => text.includes(`"${event}"`)),
  );
  expect(unused).toEqual([]);
});
