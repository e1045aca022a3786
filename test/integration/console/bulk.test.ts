/** The tab Imports over real HTTP. */
import { expect, test } from "vitest";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";
import { waitingState } from "../../support/waiting-state.ts";

const DRIFT = { ...NO_DRIFT, missing: 3 };

test("an operator pauses bulk with a reason, and resumes it; a viewer is refused", async () => {
  await using server = await serveConsole();
  const { bulkPauses } = server.runtime;
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request("/console/bulk")).text;
  const form = { form: proofIn(page), reason: "<script>it is\u202e Friday" };
  const paused = await operator.post("/console/bulk/pause", form);
  const shown = (await operator.request(paused.headers.get("location") ?? "")).text;
  expect(shown).toContain("Imports are paused.");
  expect(shown).toContain("&lt;script&gt;it is\\u202e Friday");
  expect(await bulkPauses.current()).toMatchObject({ by: "operator via console at 127.0.0.1" });

  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  // Readings are shared for a second.
  const see = async () => (await viewer.request("/console/bulk")).text;
  await expect.poll(see).toContain("Friday");
  const seen = await see();
  expect(seen).not.toContain("/console/bulk/resume");
  for (const act of ["pause", "resume"]) {
    const answer = await viewer.post(`/console/bulk/${act}`, { form: proofIn(seen) });
    expect(answer.status, act).toBe(403);
  }
  // The page shows another pause than the one that is in force by then.
  const stale = (await operator.request("/console/bulk")).text;
  const [, resume = ""] = /action="(\/console\/bulk\/resume[^"]*)"/.exec(stale) ?? [];
  await bulkPauses.end();
  await bulkPauses.begin({ since: Date.now() + 1, by: "a colleague", reason: "do not resume" });
  const refused = await operator.post(resume.replaceAll("&amp;", "&"), { form: proofIn(stale) });
  expect(refused).toMatchObject({ status: 400 });
  expect(refused.text).toContain("Imports were paused again since the page was made");
  expect(await bulkPauses.current()).toMatchObject({ by: "a colleague" });

  await expect.poll(see).toContain("do not resume");
  const resumed = await operator.submit("/console/bulk", "/console/bulk/resume");
  expect(resumed.text).toContain("Imports are resumed.");
  expect(await bulkPauses.current()).toBe(undefined);
});

test("an operator cancels what the page has shown, and nothing that came later", async () => {
  await using server = await serveConsole();
  const { keys, redis, staged } = server.runtime;
  const stage = (state: StateToStage) => staged.stage(state);
  for (const state of [
    waitingState("a", "bulk"),
    waitingState("b", "bulk"),
    waitingState("c", "live"),
  ])
    await stage(state);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  expect((await operator.request("/console/bulk")).text).toContain("Cancel imports");
  const page = (await operator.request("/console/bulk/cancel")).text;
  expect(page).toContain("Drop 2 changes");
  const [path = ""] = /\/console\/bulk\/cancel\?last=\d+/.exec(page) ?? [];
  await stage(waitingState("late", "bulk"));

  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  expect((await viewer.request("/console/bulk/cancel")).status).toBe(403);
  const refused = await viewer.post(path, {
    form: proofIn((await viewer.request("/console")).text),
  });
  expect(refused.status).toBe(403);
  expect(await redis.zcard(keys.line("bulk"))).toBe(3);

  const done = await operator.post(path, { form: proofIn(page) });
  const shown = (await operator.request(done.headers.get("location") ?? "")).text;
  expect(shown).toContain("2 changes were dropped.");
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["late"]);
  expect(await redis.zrange(keys.line("live"), "0", "-1")).toEqual(["c"]);
});

test("the last comparison is shown by kind of difference", async () => {
  await using server = await serveConsole();
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  expect((await viewer.request("/console/bulk")).text).toContain("were never compared");
  await using later = await serveConsole({ QUEUE_PREFIX: server.runtime.config.QUEUE_PREFIX });
  await later.runtime.reconciliations.keep({
    at: Date.now(),
    tookMs: 2000,
    records: 10,
    equal: 7,
    drift: DRIFT,
  });
  const run = { at: Date.now(), tookMs: 3000, result: "stopped" } as const;
  await later.runtime.reconcileRuns.ended("folder", run);
  const other = later.visitor();
  await other.logIn(VIEWER);
  const { text } = await other.request("/console/bulk");
  expect(text).toMatch(/7 of\s+10 records\s+equal,\s+in\s+2 s/);
  expect(text).toMatch(
    />missing<\/th>\s*<td[^>]*>in the CRM, not at the service<\/td>\s*<td[^>]*>3</,
  );
  expect(text).toMatch(
    /Last run for an export \(RECONCILE_DIR\)<\/dt>[^]*in 3 s: [^]*it asks for a person/,
  );
});

test("what another export has shown is told beside a last comparison without differences", async () => {
  await using server = await serveConsole();
  const { comparisons, reconciliations } = server.runtime;
  const at = Date.now();
  const found = { tookMs: 1, records: 9, equal: 9 };
  const noted = { ...found, source: "folder", asOf: at } as const;
  const plan = { id: "open", entries: 4, requests: 4, host: "h" };
  const drift = { different: 4, extra: 7 };
  await comparisons.note({ ...noted, at: at - 1, kind: "contacts", drift, plan });
  await comparisons.note({ ...noted, at, kind: "companies", drift: {} });
  await reconciliations.keep({ ...found, at, drift: NO_DRIFT });
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const { text } = await viewer.request("/console/bulk");
  expect(text).toContain("No difference of this comparison is left.");
  expect(text).toMatch(/class="warning">\s*4 relations differ still/);
});

test("an operator has the value lists fetched on the tab Sources; a viewer only sees their age", async () => {
  await using server = await serveConsole();
  const { clock, tenantLists } = server.runtime;
  await tenantLists.store({ fields: {} }, clock.now() - 20 * 60_000);
  const due = () => tenantLists.areDue(clock.now());
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const seen = (await viewer.request("/console/sources")).text;
  expect(seen).toMatch(/Fetched from the service\s+<time/);
  expect(seen).not.toContain("/console/sources/lists");
  const refused = await viewer.post("/console/sources/lists", { form: proofIn(seen) });
  expect(refused.status).toBe(403);
  expect(await due()).toBe(false);
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const { text } = await operator.submit("/console/sources", "/console/sources/lists");
  expect(text).toContain("The value lists are fetched once a process runs");
  expect(await due()).toBe(true);
});
