/** The file of a plan: found by its id, and read in pages. */
import { appendFile, mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { findPlan, planPage } from "../../../src/whole/reconcile/find-plan.ts";
import { writePlan, type PlanEntry } from "../../../src/whole/reconcile/plan-file.ts";
import { tempDir } from "../../support/temp-dir.ts";

const headerOf = (id: string) => ({
  crmsyncPlan: 1 as const,
  id,
  madeAt: "2026-11-21T08:00:00.000Z",
  service: "http://service",
  prefix: "{crmsync}",
  mapping: "generic",
  mappingHash: "1",
  snapshot: { hash: "2", asOf: "2026-11-21T07:00:00.000Z" },
  requests: 2,
});

const entry = (n: number): PlanEntry => ({
  code: `Ünï-${n}`,
  kind: "different",
  position: n,
  fields: ["city"],
  was: "x",
  wants: "y",
  requests: 1,
});

const MADE_AT = Date.parse("2026-11-21T08:00:00Z");

test("a plan is found by its id, in DATA_DIR and beside an export in RECONCILE_DIR/done", async () => {
  await using dir = await tempDir();
  const config = readConfig({ DATA_DIR: join(dir.path, "data"), RECONCILE_DIR: dir.path });
  expect(await findPlan(config, { id: "a", at: MADE_AT })).toBeUndefined();
  const [data, done] = [join(dir.path, "data", "reconcile"), join(dir.path, "done")];
  for (const folder of [data, done]) await mkdir(folder, { recursive: true });
  const [own, other, beside] = [
    join(data, "plan-1.ndjson"),
    join(data, "plan-2.ndjson"),
    join(done, "Muster.csv.plan.ndjson"),
  ];
  await writePlan(own, headerOf("a"), [entry(0)]);
  await writePlan(other, headerOf("b"), [entry(0)]);
  await writePlan(beside, headerOf("c"), [entry(0)]);
  await writeFile(join(data, "plan-3.ndjson"), "no plan");
  // The time of a file only says where to look first.
  await utimes(own, 1, 1);
  expect(await findPlan(config, { id: "a", at: MADE_AT })).toBe(own);
  expect(await findPlan(config, { id: "c", at: MADE_AT })).toBe(beside);
  expect(await findPlan(config, { id: "d", at: MADE_AT })).toBeUndefined();
});

test("pages of a large plan together are its entries", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "plan");
  // Some pieces of 256 kB.
  const all = Array.from({ length: 6000 }, (_, n) => entry(n));
  await writePlan(file, headerOf("a"), all);
  const read: PlanEntry[] = [];
  for (let from = 0; from < all.length; from += 700) {
    read.push(...((await planPage({ file, entries: all.length }, from, 700)) ?? []));
  }
  expect(read).toEqual(all);
  expect(await planPage({ file, entries: all.length }, 7000, 50)).toEqual([]);
});

test("a plan that is gone or was changed has no page", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "plan");
  expect(await planPage({ file, entries: 1 }, 0, 50)).toBeUndefined();
  await writePlan(file, headerOf("a"), [entry(0)]);
  expect(await planPage({ file, entries: 1 }, 0, 50)).toEqual([entry(0)]);
  await appendFile(file, "x");
  expect(await planPage({ file, entries: 3 }, 0, 50)).toBeUndefined();
  const text = await readFile(file, "utf8");
  await writeFile(file, text.slice(0, text.indexOf('"code"') + 9));
  expect(await planPage({ file, entries: 1 }, 0, 50)).toBeUndefined();
});
