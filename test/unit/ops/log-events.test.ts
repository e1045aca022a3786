import { join } from "node:path";
import { expect, it } from "vitest";
import { LOG_EVENTS, sentenceOf, type LogEvent } from "../../../src/base/log-events.ts";
import { readSources } from "../../support/imports.ts";

/** The logger's type guarantees the other direction: the code names no event outside of the table. */
it("every event of the table is used in the code", () => {
  const files = readSources(join(import.meta.dirname, "../../.."), ["src", "workers"]);
  const sources = files.filter(({ path }) => path !== "src/base/log-events.ts");
  expect(sources.length).toBe(files.length - 1);
  const unused = Object.keys(LOG_EVENTS).filter(
    (event) => !sources.some(({ text }) => text.includes(`"${event}"`)),
  );
  expect(unused).toEqual([]);
});

it("every event has one or two short sentences, as its lines show them to people", () => {
  const wrong = (Object.keys(LOG_EVENTS) as LogEvent[])
    .map(sentenceOf)
    .filter((text) => !/^[A-Z][^`\n]{9,119}\.$/.test(text));
  expect(wrong).toEqual([]);
});
