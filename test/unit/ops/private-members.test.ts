import { join } from "node:path";
import { expect, it } from "vitest";
import { readSources } from "../../support/imports.ts";

const PRIVATE = [
  // Files inside a library.
  /["'](?:bottleneck|bullmq|ioredis|undici)\/(?:built|dist|lib)\//,
  // Members of BullMQ and Bottleneck that are no part of their API.
  /\b(?:limitUntil|lockManager|moveToActive|_queues|_scheduled|_store)\b/,
  /\bDate\.now\s*=(?!=)/,
  // One flag is needed (src/base/v8-flags.ts).
  /setFlagsFromString\((?!"--no-concurrent-sparkplug"\))/,
];

const isPrivate = (text: string): boolean => PRIVATE.some((pattern) => pattern.test(text));

it("the sources use libraries by their public API, and no clock is replaced", () => {
  const files = readSources(join(import.meta.dirname, "../../.."), ["src", "workers"]);
  expect(files.filter(({ text }) => isPrivate(text)).map(({ path }) => path)).toEqual([]);
});

it.for([
  `load("undici/lib/api/api-request.js");`,
  `import scripts from "bullmq/dist/cjs/scripts/index.js";`,
  `worker.limitUntil = 0;`,
  `limiter._store.prepare();`,
  `Date.now = () => 0;`,
  `setFlagsFromString("--optimize-for-size");`,
])("%s is found", (text) => {
  expect(isPrivate(text)).toBe(true);
});

it.for([`if (Date.now === undefined) return;`, `import { Pool } from "undici";`])(
  "%s is allowed",
  (text) => {
    expect(isPrivate(text)).toBe(false);
  },
);
