/** Only one file reads the data of a job: whatever else reads it gets rounded numbers. */
import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const READER = "src/core/event/job-data.ts";

/** Jobs of the queue `sync` are our own, and carry only a crmCode, as text. */
const READS = [
  // job.data
  /job\??\.data\b/i,
  // const { data } = job, or of each job
  /\{[^{}]*\bdata\b[^{}]*\}\s*(?:=|of)\s[^;\n]*job/i,
  // ({ data }: Job) =>
  /\{[^{}]*\bdata\b[^{}]*\}\s*:\s*(?:Pick<)?Job\b/,
];

const readsData = (text: string): boolean => READS.some((pattern) => pattern.test(text));

test("no other file reads the data of a job", () => {
  const files = globSync("{src,workers}/**/*.ts");
  expect(files.length).toBeGreaterThan(100);
  const found = files.filter((file) => readsData(readFileSync(file, "utf8")));
  expect(found).toEqual([READER]);
});

test.for([
  "await inbox.open(job.data);",
  "const { crm } = failedJob?.data;",
  "const { data, id } = job;",
  "for (const { data } of await queue.getJobs()) use(data);",
  "function of({ data }: Job<ThinPointer>) {}",
  'function of({ data }: Pick<Job, "data">) {}',
])("it is found: %s", (text) => {
  expect(readsData(text)).toBe(true);
});
