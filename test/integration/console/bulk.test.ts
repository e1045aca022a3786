/** The tab Bulk and reconcile over real HTTP. */
import { expect, test } from "vitest";
import { OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";

const DRIFT = {
  missing: 3,
  different: 0,
  terminated: 0,
  ended: 0,
  extra: 0,
  invalid: 0,
  unmappable: 0,
  duplicate: 0,
};

test("an operator pauses bulk with a reason, and resumes it; a viewer is refused", async () => {
  await using server = await serveConsole();
  const { bulkPauses } = server.runtime;
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request("/console/bulk")).text;
  const form = { form: proofIn(page), reason: "<script>it is\u202e Friday" };
  const paused = await operator.post("/console/bulk/pause", form);
  const shown = (await operator.request(paused.headers.get("location") ?? "")).text;
  expect(shown).toContain("The lane bulk is paused.");
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
  const resumed = await operator.submit("/console/bulk", "/console/bulk/resume");
  expect(resumed.text).toContain("The lane bulk is resumed.");
  expect(await bulkPauses.current()).toBe(undefined);
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
  const other = later.visitor();
  await other.logIn(VIEWER);
  const { text } = await other.request("/console/bulk");
  expect(text).toMatch(/10 records\s+of the CRM in\s+2 s,\s+7\s+are\s+equal/);
  expect(text).toMatch(
    />missing<\/th>\s*<td[^>]*>in the CRM, not at the service<\/td>\s*<td[^>]*>3</,
  );
});
