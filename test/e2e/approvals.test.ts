/** Plans that need a second person, with real daemons: by the command, and from the console. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { entriesOf, openPlan, writePlan } from "../../src/whole/reconcile/plan-file.ts";
import { startDaemon } from "../support/crmsync.ts";
import { Visitor } from "../support/console.ts";
import { localCrmsync } from "../support/local-command.ts";
import { codes, lines, person, plant, reconcile, sandboxWith } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const ANNA = "token-of-anna-with-24-characters";
const BEN = "token-of-ben-with-24-characters";
const OPERATOR_TOKEN = `anna:${ANNA} ben:${BEN}`;

test("a plan waits for another person, by the command and from the console", async () => {
  await using dir = await tempDir();
  const all = codes(0, 12);
  await using sandbox = await sandboxWith(
    dir,
    all.slice(2).map((n) => person(n)),
  );
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  await using daemon = await startDaemon({ ...env, APPROVALS: "plan", OPERATOR_TOKEN });
  const as = (token: string) => ({ ...env, REDIS_URL: daemon.redisUrl, MY_TOKEN: token });
  const snapshot = join(dir.path, "crm.ndjson");
  await writeFile(snapshot, lines(all.map((n) => person(n))));
  const plan = join(dir.path, "plan.ndjson");
  expect((await reconcile(as(ANNA), [snapshot, "--plan", plan])).code).toBe(0);

  // The commands below have no APPROVALS in their environment.
  const knowsAnna = async () => {
    await using command = localCrmsync(["bulk", "resume"], { env: as(ANNA) });
    return (await command.ended).code === 0;
  };
  await waitFor(knowsAnna, { what: "the daemon has told its rule" });
  const asked = await reconcile(as(ANNA), ["--apply", plan, "--json"]);
  expect(asked.code).toBe(3);
  const {
    asked: { id },
  } = JSON.parse(asked.out) as { asked: { id: string } };
  expect((await sandbox.relations()).size).toBe(10);
  const unnamed = await reconcile({ ...env, REDIS_URL: daemon.redisUrl }, ["--apply", plan]);
  expect(unnamed.err).toContain("set MY_TOKEN");
  await using approving = localCrmsync(["approvals", "approve", id], { env: as(BEN) });
  expect((await approving.ended).code, approving.stderr.join("\n")).toBe(0);
  expect(approving.stdout.join("\n")).toContain(`run: crmsync reconcile --apply ${plan}`);

  // Somebody changes what was approved: another file under the id of the plan.
  const text = await readFile(plan, "utf8");
  await writeFile(plan, text.replace('"kind":"missing"', '"kind":"ended"'));
  expect((await reconcile(as(ANNA), ["--apply", plan])).err).toContain("was changed after");
  await writeFile(plan, text);
  const applied = await reconcile(as(ANNA), ["--apply", plan]);
  expect(applied, applied.err).toMatchObject({ code: 0, out: "carried out: 2 sent" });
  expect((await sandbox.relations()).size).toBe(12);
  // The approval is used up.
  await using listing = localCrmsync(["approvals", "list", "--json"], { env: as(BEN) });
  await listing.ended;
  expect(JSON.parse(listing.stdout[0] ?? "")).toMatchObject({
    id,
    state: "done",
    says: "carried out",
  });

  // From the console: the daemon carries it out.
  await plant(dir, [person(3, { city: "Trier" })]);
  await reconcile(as(ANNA), [snapshot]);
  const anna = new Visitor(daemon.url);
  const ben = new Visitor(daemon.url);
  await anna.logIn(ANNA);
  await ben.logIn(BEN);
  const bulk = (await anna.request("/console/bulk")).text;
  const [page = ""] = /\/console\/bulk\/plan\?id=[\w-]+/.exec(bulk) ?? [];
  const apply = page.replace("plan?", "plan/apply?");
  expect((await anna.request(page)).text).toContain("Carry it out…");
  const confirm = (await anna.request(apply)).text;
  expect(confirm).toContain("0 creations, 1 update and 0 terminations");
  const waits = await anna.submit(apply, "/console/bulk/plan/apply");
  const [, second = ""] = /Approval ([2-9A-Z]{6})/.exec(waits.text) ?? [];
  const path = `/console/approvals/one?id=${second}`;
  expect((await ben.submit(path, "/console/approvals/approve")).text).toContain(
    "carries the plan out",
  );
  await waitFor(async () => (await ben.request(path)).text.includes("carried out: 1 sent"), {
    what: "the daemon has carried it out",
  });
  const relations = await sandbox.relations();
  expect(relations.get("p3")?.["city"]).toBeUndefined();

  // A termination that its plan calls an update; the hash is right. What was approved as an update ends nothing.
  const ending = all.map((n) => person(n, n === 5 ? { relationStatus: "terminated" } : {}));
  await writeFile(snapshot, lines(ending));
  const forged = join(dir.path, "forged.ndjson");
  expect((await reconcile(as(ANNA), [snapshot, "--plan", forged])).out).toContain("1  ended");
  const written = await openPlan(forged);
  const entries = await Array.fromAsync(entriesOf(written));
  await writePlan(
    forged,
    written.header,
    entries.map((entry) => ({ ...entry, kind: "different" as const })),
  );
  const third = await reconcile(as(ANNA), ["--apply", forged]);
  expect(third.out).toContain("1 update and 0 terminations");
  const [, thirdId = ""] = /approval ([2-9A-Z]{6})/.exec(third.out) ?? [];
  await using trusting = localCrmsync(["approvals", "approve", thirdId], { env: as(BEN) });
  expect((await trusting.ended).code).toBe(0);
  expect((await reconcile(as(ANNA), ["--apply", forged])).out).toContain("1 changed since");
  expect((await sandbox.relations()).get("p5")?.["relationStatus"]).not.toBe("terminated");
});
