import { readOne } from "../../../src/base/redis-reading.ts";
/** The last plans on the tab Bulk and reconcile, and the differences of one of them, over real HTTP. */
import { hostname } from "node:os";
import { join } from "node:path";
import { mkdir, rm } from "node:fs/promises";
import { expect, test } from "vitest";
import { operatorNamed } from "../../../src/base/person.ts";
import { askedPlan } from "../../../src/people/approvals/asked-about.ts";
import { ask } from "../../../src/people/approvals/decide.ts";
import { openPlan, writePlan, type PlanEntry } from "../../../src/whole/reconcile/plan-file.ts";
import { linksIn, serveConsole, VIEWER } from "../../support/console.ts";
import { tempDir } from "../../support/temp-dir.ts";

const entry = (n: number): PlanEntry => ({
  code: `<i>p ${n}/x`,
  kind: n === 0 ? "missing" : "different",
  position: n,
  fields: n === 0 ? [] : ["city", "email"],
  was: "x",
  wants: "y",
  requests: 1,
});

const HEADER = {
  crmsyncPlan: 1,
  id: "plan-1",
  madeAt: "2026-11-21T08:00:00.000Z",
  service: "http://service",
  prefix: "{crmsync}",
  mapping: "generic",
  mappingHash: "1",
  snapshot: { hash: "2", asOf: "2026-11-21T07:00:00.000Z" },
  requests: 120,
} as const;

test("earlier plans are listed with what became of them, and opened in pages", async () => {
  await using dir = await tempDir();
  await using server = await serveConsole({ DATA_DIR: dir.path });
  const { comparisons, reconciliations } = server.runtime;
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const see = async (path: string) => (await viewer.request(path)).text;
  expect(await see("/console/bulk")).toContain("No comparison is remembered.");

  await mkdir(join(dir.path, "reconcile"));
  const file = join(dir.path, "reconcile", "plan-2026.ndjson");
  await writePlan(
    file,
    HEADER,
    Array.from({ length: 120 }, (_, n) => entry(n)),
  );
  const found = { tookMs: 2000, records: 500, equal: 380, kind: "crm", asOf: 0 };
  const plan = { id: "plan-1", entries: 120, requests: 120, host: "h1" };
  const drift = { missing: 1, different: 119 };
  const now = Date.now();
  await comparisons.note({ ...found, at: now - 5000, source: "folder", drift, plan });
  await comparisons.note({
    ...found,
    at: now,
    source: "schedule",
    crm: "hubspot",
    drift: { ended: 400 },
    stop: "it would terminate 30 of 40 active relations, and 20 are allowed",
  });
  const repaired = { different: 30 };
  const note = { id: "plan-1", state: "running" as const, done: 40, entries: 120, requests: 80 };
  await reconciliations.begunBy("plan-1", "ben via console at 10.0.0.7, approved by anna");
  await reconciliations.note({ ...note, repaired });
  expect(await reconciliations.cancel("plan-1")).toBe(true);

  const list = await see("/console/bulk");
  expect(list).toMatch(
    /RECONCILE_CRON\), listed from hubspot[^]*400 ended; 380 of 500 records equal/,
  );
  expect(list).toContain(
    "stopped, and nothing was planned: it would terminate 30 of 40 active relations",
  );
  expect(list).toContain("cancelled after 40 of 120 entries");
  expect(list).toContain("by ben via console at 10.0.0.7, approved by anna");
  const [path = "", ...others] = linksIn(list, "/console/bulk/plan");
  expect(others).toEqual([]);

  const first = await see(path);
  expect(first).toMatch(/>different<\/th>[^]*?>119<\/td>\s*<td[^>]*>30</);
  expect(first).toContain("&lt;i&gt;p 0/x");
  expect(first).not.toContain("<i>p");
  expect(first).toContain("city, email");
  expect(first).toContain("Page 1 of 3");
  expect(await see(linksIn(first, "/console/records?name=%3Ci%3Ep+1%2Fx")[0] ?? "")).toContain(
    "Find",
  );
  const last = await see(`${path}&page=3`);
  expect(last).toContain("p 119/x");
  expect(last).not.toContain("p 99/x");

  // The volume is on another machine, or the plan was removed.
  await rm(file);
  const gone = await see(path);
  expect(gone).toContain("This page does not find its file");
  expect(gone).toContain("It was written on h1");
  expect(await see("/console/bulk/plan?id=..%2F..%2Fetc")).toContain("not one of the last plans");
});

test("an approval does not show another file with the id of its plan", async () => {
  await using dir = await tempDir();
  await using server = await serveConsole({ DATA_DIR: dir.path });
  const { comparisons } = server.runtime;
  await mkdir(join(dir.path, "reconcile"));
  const file = join(dir.path, "reconcile", "plan-2026.ndjson");
  const { hash } = await writePlan(file, HEADER, [entry(0)]);
  const source = "command" as const;
  const found = { tookMs: 2000, records: 500, equal: 499, source, kind: "crm", asOf: 0 };
  const plan = { id: "plan-1", entries: 1, requests: 1, host: "h1" };
  await comparisons.note({ ...found, at: Date.now(), drift: { missing: 1 }, plan });
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const path = "/console/bulk/plan?id=plan-1&hash=";
  const same = (await viewer.request(`${path}${hash}`)).text;
  expect(same).toContain("&lt;i&gt;p 0/x");
  const other = (await viewer.request(`${path}${"0".repeat(64)}`)).text;
  expect(other).toContain("This is not the plan that was asked for");
  expect(other).not.toContain("&lt;i&gt;p 0/x");
});

test("an approval shows the plan that --plan wrote into another folder", async () => {
  await using dir = await tempDir();
  await using server = await serveConsole({ DATA_DIR: dir.path });
  const { comparisons } = server.runtime;
  const file = join(dir.path, "it's mine.ndjson");
  const { hash } = await writePlan(file, HEADER, [entry(0)]);
  const plan = { id: "plan-1", entries: 1, requests: 1, host: hostname() };
  const found = { tookMs: 2000, records: 500, equal: 499, kind: "crm", asOf: 0 };
  await comparisons.note({ ...found, at: Date.now(), source: "command", drift: {}, plan });
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const see = async () => (await viewer.request(`/console/bulk/plan?id=plan-1&hash=${hash}`)).text;
  // Nobody has asked for it: no file outside of crmsync's own folders is read.
  expect(await see()).toContain("This page does not find its file");
  const anna = { by: "anna", person: operatorNamed("anna"), marks: [] };
  const asked = await askedPlan(await openPlan(file), false);
  await ask(server.runtime, anna, { act: "plan", plan: asked }, []);
  expect(await see()).toContain("&lt;i&gt;p 0/x");
  await writePlan(file, HEADER, [entry(1)]);
  expect(await see()).toContain("This page does not find its file");
});

test("a plan that was interrupted is shown again when one that came later is done or cancelled", async () => {
  await using server = await serveConsole();
  const { reconciliations, redis } = server.runtime;
  const note = (id: string, state: "running" | "done", done: number) =>
    reconciliations.note({ id, state, done, entries: 10, requests: 10 - done, repaired: {} });
  const shown = async () => (await readOne(redis, reconciliations.feeding()))?.id;
  await note("first", "running", 4);
  await note("second", "running", 0);
  expect(await shown()).toBe("second");
  await note("second", "done", 10);
  expect(await readOne(redis, reconciliations.feeding())).toEqual({
    id: "first",
    entries: 10,
    left: 6,
    requests: 6,
  });
  await note("third", "running", 1);
  expect(await reconciliations.cancel("third")).toBe(true);
  expect(await shown()).toBe("first");
  // Gone on with, and done.
  await note("first", "running", 5);
  await note("first", "done", 10);
  expect(await shown()).toBeUndefined();
});
