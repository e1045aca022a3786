import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { IsolatedMapping } from "../../../src/intake/mapping/isolated-mapping.ts";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { MappingError, type CrmRecord, type Mapping } from "../../../src/intake/mapping/mapping.ts";
import { spawnNode } from "../../support/process.ts";
import { waitFor } from "../../support/wait-for.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";

let dir: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "crmsync-mapping-"));
});
afterAll(() => rm(dir, { recursive: true }));
afterEach(() => void vi.useRealTimers());

async function open(fields: string) {
  const file = join(dir, `${Math.random()}.yaml`);
  const text = `version: 1
objects:
  - object: contact
    crmCode: $event.recordId
    fields: { type: { value: Person }, firstName: a, lastName: b, ${fields} }
`;
  await writeFile(file, text);
  const mapping = await loadMapping(file);
  // The file counts as it was at the start, whatever thread maps by it.
  await writeFile(file, text.replace("firstName: a", "firstName: b"));
  return mapping;
}

const threadsOf = (mapping: Mapping): number => (mapping as IsolatedMapping).threads;

const context = {
  type: "crm.record.updated",
  source: "/x",
  subject: "contact/1",
  object: "contact",
  recordId: "1",
};
const GOOD = { a: "Ada", b: "Muster" };

describe("an expression that does not end fails one record only, and blocks nothing", () => {
  test("once a record was slow, the others do not wait for the next one", async () => {
    const mapping = await open(`city: '$match(c, /^(\\w+\\s?)*$/)'`);
    const map = (record: CrmRecord) => mapping.map(context, record, DEFAULT_TENANT_LISTS);
    const slow = () => map({ ...GOOD, c: `${"a".repeat(40)}!` });
    const mapAll = () => Promise.all(Array.from({ length: 20 }, () => map(GOOD)));
    const ADA = { kind: "mapped", candidate: { firstName: "Ada" } };
    expect(threadsOf(mapping)).toBe(1);
    let turns = 0;
    const turning = setInterval(() => (turns += 1), 10);
    const [bad, all] = await Promise.all([slow(), mapAll()]);
    clearInterval(turning);
    expect(turns).toBeGreaterThan(0);
    expect(bad).toMatchObject({ kind: "unmappable", problems: [{ field: "city" }] });
    expect(all).toMatchObject(all.map(() => ADA));
    await waitFor(() => threadsOf(mapping) > 1, { what: "a second thread" });
    const next = slow().catch((error: unknown) => String(error));
    expect(await Promise.race([next, mapAll()])).toMatchObject(all.map(() => ADA));
    await mapping.close();
    expect(await next).toMatch(/the mapping is closed/);
  });

  test("one that needs too much memory", async () => {
    const mapping = await open(
      `city: 'c = "x" ? $count($map([1..90000], function($i) { [[1..90000]] }))'`,
    );
    const map = (record: CrmRecord) => mapping.map(context, record, DEFAULT_TENANT_LISTS);
    const [bad, good] = await Promise.all([map({ ...GOOD, c: "x" }), map(GOOD)]);
    await mapping.close();
    expect(JSON.stringify(bad.kind === "mapped" ? bad.warnings : bad)).toContain("city");
    expect(good).toMatchObject({ kind: "mapped", candidate: { firstName: "Ada" } });
  });

  test("an endless recursion is stopped within the thread, and the field is left out", async () => {
    const mapping = await open(`city: '($f := function($n) { $f($n + 1) }; $f(1))'`);
    expect(await mapping.map(context, GOOD, DEFAULT_TENANT_LISTS)).toMatchObject({
      kind: "mapped",
      warnings: [{ field: "city", reason: "expression_failed" }],
    });
    await mapping.close();
  });
});

/** A module that maps, and does something more for the record whose `a` is `bad`. */
async function openModule(statements: string, first = "") {
  const file = join(dir, `${Math.random()}.mts`);
  await writeFile(
    file,
    `${first}
export async function mapRecord(record) {
  if (record.a === "bad") { ${statements} }
  return { crmCode: "1", fields: { type: "Person", firstName: record.a, lastName: record.b } };
}
`,
  );
  return loadMapping(file);
}

test.for([
  ["process.exit", "process.exit(0)", /^the mapping ended its thread, by process\.exit /],
  [
    "an error that nothing catches",
    `Promise.reject(new RangeError("of Ada")); await new Promise(() => {})`,
    /^the mapping ended its thread by an error that it did not catch: RangeError at .*\.mts:3;/,
  ],
  [
    "memory",
    "for (const all = []; ; ) all.push(Array(1e5).fill(1))",
    /^the mapping used more memory than a mapping may have;/,
  ],
] as const)("a module that ends its thread (%s) costs one record", async ([, does, rule]) => {
  const mapping = await openModule(does);
  const map = (a: string) => mapping.map(context, { ...GOOD, a }, DEFAULT_TENANT_LISTS);
  const bad = await map("bad");
  expect(bad.kind === "unmappable" && bad.problems[0]?.rule).toMatch(rule);
  expect(await map("Ada")).toMatchObject({ kind: "mapped", candidate: { firstName: "Ada" } });
  await mapping.close();
});

test("a thread that ends between two records costs none, and is not started for nothing", async () => {
  const mapping = await openModule("setTimeout(() => process.exit(0), 1)");
  const map = (a: string) => mapping.map(context, { ...GOOD, a }, DEFAULT_TENANT_LISTS);
  expect(await map("bad")).toMatchObject({ kind: "mapped" });
  await waitFor(() => threadsOf(mapping) === 0, { what: "the thread has ended" });
  expect(await map("Ada")).toMatchObject({ kind: "mapped" });
  expect(threadsOf(mapping)).toBe(1);
  await mapping.close();
});

test("a spare thread that is busy when the spare threads are ended is ended after its record", async () => {
  const mapping = await openModule(
    "while (!existsSync(record.until)) await setTimeout(10);",
    'import { existsSync } from "node:fs"; import { setTimeout } from "node:timers/promises";',
  );
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const [one, two] = ["one", "two"].map((name) => {
    const until = join(dir, name);
    const record = { ...GOOD, a: "bad", until };
    const mapped = mapping.map(context, record, DEFAULT_TENANT_LISTS);
    return async () => {
      await writeFile(until, "");
      return mapped;
    };
  });
  await waitFor(() => threadsOf(mapping) === 2, { what: "a second thread" });
  vi.runAllTimers();
  expect(threadsOf(mapping)).toBe(2);
  expect(await one?.()).toMatchObject({ kind: "mapped" });
  expect(threadsOf(mapping)).toBe(1);
  expect(await two?.()).toMatchObject({ kind: "mapped" });
  expect(threadsOf(mapping)).toBe(1);
  await mapping.close();
});

test.for([
  ["process.exit(0);", /it ended its thread, by process\.exit /],
  ["await new Promise(() => {});", /it ended its thread, by process\.exit or by an await without/],
] as const)(
  "a module that ends its thread while it loads cannot be used: %s",
  async ([first, expected]) => {
    const error: unknown = await openModule("", first).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(MappingError);
    expect(String(error)).toMatch(expected);
  },
);

test("the tenant's lists are applied last", async () => {
  const mapping = await open("service: s");
  const lists = new Map([
    [
      "service",
      { values: new Set(["gold", "silver_plus"]), isRequired: false, multiSelect: false },
    ],
  ]);
  const map = async (s: unknown) => {
    const mapped = await mapping.map(context, { ...GOOD, s }, lists);
    return mapped.kind === "mapped"
      ? [mapped.candidate?.["service"], ...mapped.warnings.map(({ reason }) => reason)]
      : mapped;
  };
  expect(await map("Silver plus")).toEqual([["silver_plus"]]);
  expect(await map("lead;gold")).toEqual([["gold"], "not_in_tenant_list"]);
  expect(await map(["lead"])).toEqual([undefined, "not_in_tenant_list"]);
  expect(await map(["gold", "silver plus"])).toEqual([undefined, "too_many"]);
  // Two spellings of one value are one value.
  expect(await map(["Silver plus", "silver_plus"])).toEqual([["silver_plus"]]);
  await mapping.close();
});

test("a TypeScript module maps in a thread, which has none of the daemon's variables", async () => {
  vi.stubEnv("SERVICE_TOKEN", "a secret");
  const file = join(dir, "map.ts");
  await writeFile(
    file,
    `export const mapRecord = (record: { n?: string } | undefined, event: { recordId: string }) => ({
  crmCode: "ts-" + event.recordId,
  fields: { type: "Trust", name: record?.n, city: process.env["SERVICE_TOKEN"] ?? "nothing" },
});`,
  );
  const mapping = await loadMapping(file);
  vi.unstubAllEnvs();
  expect(await mapping.map(context, { n: "Blue" }, DEFAULT_TENANT_LISTS)).toMatchObject({
    crmCode: "ts-1",
    candidate: { type: "Trust", name: "Blue", city: "nothing" },
  });
  await mapping.close();
});

test.for([
  [
    "nothing",
    /neither a file \(.*nothing does not exist\) nor a preset; the presets are business-relation, /,
  ],
  ["bad.ts", /must export a function mapRecord/],
  ["reads.ts", /reads must be a list of the CRM's fields/],
  ["broken.ts", /it cannot be loaded: broken\.ts:2: /],
  ["enum.ts", /enum\.ts:1: .*use only syntax that JavaScript also has/],
  ["bad.yaml", /bad\.yaml:1: /],
] as const)("%s cannot be loaded, and says why", async ([name, expected]) => {
  await writeFile(join(dir, "bad.ts"), "export const other = 1;");
  await writeFile(
    join(dir, "reads.ts"),
    'export const reads = "firstname"; export const mapRecord = () => undefined;',
  );
  await writeFile(join(dir, "broken.ts"), "\nexport const = 1;");
  await writeFile(join(dir, "enum.ts"), "enum A { B }");
  await writeFile(join(dir, "bad.yaml"), "a: [");
  const error: unknown = await loadMapping(join(dir, name)).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(MappingError);
  expect(String(error)).toMatch(expected);
});

test("a process that was stopped for longer than the limit loses no record", async () => {
  const module = join(dir, "computes.ts");
  const marker = join(dir, "has-begun");
  await writeFile(
    module,
    `import { writeFileSync } from "node:fs";
export function mapRecord(record) {
  writeFileSync(record.marker, "");
  const before = process.threadCpuUsage();
  while (process.threadCpuUsage(before).user < 300_000);
  return { crmCode: "1", fields: { type: "Person", firstName: "Ada", lastName: "Muster" } };
}
`,
  );
  const script = join(import.meta.dirname, "frozen-process.ts");
  await using child = spawnNode([script, module, marker]);
  await child.line(/^frozen$/);
  const frozenAt = performance.now();
  await waitFor(() => performance.now() - frozenAt > 3000, { what: "more than the limit passes" });
  child.kill("SIGCONT");
  const [line] = await child.line(/^\{.*\}$/);
  expect(JSON.parse(line)).toMatchObject({ kind: "mapped", crmCode: "1" });
});
