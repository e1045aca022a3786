/** Since when differences are known, and how long they took to be gone: real comparisons, the real sandbox. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listRelations } from "../../src/records/list-relations.ts";
import { repairTimes } from "../../src/records/differences.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { lines, person, plant, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";

test("a difference keeps since when it is known, until it is repaired; what nobody repairs stays", async () => {
  await using dir = await tempDir();
  const all = Array.from({ length: 60 }, (_, n) => person(n, { city: "Trier" }));
  // One is missing, one differs, and one relation is not of this CRM.
  const held = [
    ...all.slice(1).map((one, n) => (n === 0 ? { ...one, city: "Metz" } : one)),
    { ...person(0), crmCode: "OTHER-1" },
  ];
  await using sandbox = await sandboxWith(dir, held);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(all));
  const stores = newRuntime(env);
  const found = async () =>
    (await Array.fromAsync(listRelations(stores, { states: ["foreign", "differing"] })))
      .flat()
      .map(({ also: [is], crmCode = "", since, state }) => [crmCode, is ?? state, since])
      .toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  const compare = async (asOf: string) => {
    const { code, err, out } = await reconcile(env, [file, "--as-of", asOf]);
    expect(code, err).toBe(0);
    return out;
  };
  const [first, second, third] = [180_000, 120_000, 90_000].map((ago) =>
    new Date(Date.now() - ago).toISOString(),
  ) as [string, string, string];

  await using daemon = await localDaemon(env);
  expect(await compare(first)).toContain(`2 differ: 2 since ${first.slice(0, 19)}Z`);
  const since = Date.parse(first);
  const foreign = ["OTHER-1", "foreign", since];
  const missing = ["p0", "differing", since];
  const differs = ["p1", "differing", since];
  expect(await found()).toEqual([foreign, missing, differs]);

  // Somebody edits a relation behind our back, and repairs another one.
  await plant(dir, [{ ...person(5), city: "Nancy" }, all[1]]);
  const out = await compare(second);
  expect(out).toContain(
    `2 differ: 1 since ${second.slice(0, 19)}Z, 1 since ${first.slice(0, 19)}Z`,
  );
  expect(out).toMatch(/^1 difference is gone: half of them within 60 s, 99 % within 60 s$/m);
  const edited = ["p5", "differing", Date.parse(second)];
  expect(await found()).toEqual([foreign, missing, edited]);

  const listed = (await Array.fromAsync(listRelations(stores))).flat();
  const of = (crmCode: string) => listed.find((one) => one.crmCode === crmCode);
  expect(listed).toHaveLength(61);
  expect(of("OTHER-1")).toMatchObject({ state: "foreign", since });
  expect(of("p0")).toMatchObject({ state: "unknown" });
  expect(of("p0")?.why).toMatch(
    /^differs from crm\.ndjson since \S+: in the CRM, not at the service$/,
  );
  // The comparison has seen that the ledger is wrong about it.
  expect(of("p5")).toMatchObject({ state: "unknown" });
  expect(of("p5")?.why).toMatch(/: their fields differ \(city\)$/);

  // What its plan repairs is gone before the next comparison.
  expect((await reconcile(env, [file, "--as-of", third, "--apply", "--yes"])).code).toBe(0);
  await waitUntilSettled(daemon);
  expect(await found()).toEqual([foreign]);
  await reconcile(env, [file]);
  const { all: times, byField } = await repairTimes(stores);
  expect(times.count).toBe(3);
  expect(times.p99Ms).toBeGreaterThanOrEqual(180_000);
  expect(byField).toEqual([expect.objectContaining({ name: "city", count: 2 })]);
});
