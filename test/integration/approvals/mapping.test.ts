/** APPROVALS=mapping: no change is made with a mapping that a second person has not approved. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { openStores } from "../../../src/operate/status/stores.ts";
import type { Approval, AskedMapping } from "../../../src/core/state/approvals.ts";
import { localDaemon, type LocalDaemon } from "../../support/in-process.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { personEvent } from "../../support/person-event.ts";
import { personMapping } from "../../support/person-mapping.ts";
import { lines, reconcile, sandboxWith } from "../../support/reconcile.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envFor } from "../../support/tenant-env.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const ANNA = "token-of-anna-with-24-characters";
const BEN = "token-of-ben-with-24-characters";
const ACT = { APPROVALS: "mapping", OPERATOR_TOKEN: `anna:${ANNA} ben:${BEN}` };

const WEBHOOK = "webhooks:\n  tool:\n    verify: none\n    object: { value: contact }\n";

const record = (n: number) => ({
  id: String(n),
  firstName: "Ada",
  lastName: n === 3 ? "" : `Muster ${n}`,
  town: "Trier",
  place: n === 2 ? "Nancy" : "Trier",
});
const eventOf = (n: number) => personEvent(`p${n}`, record(n), { subject: `contact/${n}` });

/** What the status says of a mapping that waits. */
const waiting = (daemon: LocalDaemon) =>
  waitFor(
    async () =>
      (await daemon.status()).findings.find(({ runbook }) =>
        runbook.endsWith("#the-mapping-waits-for-approval"),
      ),
    { what: "the mapping waits" },
  );

test("events wait until another person approves the mapping; a new one replaces it with its first start", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const [old, next] = ["old.yaml", "next.yaml"].map((name) => join(dir.path, name));
  const crm = join(dir.path, "crm.ndjson");
  await writeFile(old!, `${personMapping("city: town")}${WEBHOOK}`);
  await writeFile(next!, `${personMapping("city: place")}${WEBHOOK}`);
  await writeFile(crm, lines([record(1), record(2), record(3)]));
  const env = envFor(sandbox, { DATA_DIR: dir.path, MAPPING: old! });
  // No command has APPROVALS or OPERATOR_TOKEN in its environment.
  const crmsync = async (token: string, ...args: string[]) => {
    await using command = localCrmsync(args, { env: { ...env, MY_TOKEN: token } });
    const { code } = await command.ended;
    return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
  };
  const idIn = (out: string) => /approval ([2-9A-Z]{6})/.exec(out)?.[1] ?? `no id: ${out}`;
  const cityOf = async (code: string) => (await sandbox.relations()).get(code)?.["city"];
  const isSent = (code: string, city: string) =>
    waitFor(async () => (await cityOf(code)) === city, { what: `${code} with ${city}` });

  await using daemon = await localDaemon({ ...env, ...ACT });
  expect((await daemon.push([eventOf(1)])).status).toBe(202);
  const finding = await waiting(daemon);
  expect(finding).toMatchObject({ severity: "critical", effect: "some_held" });
  expect(finding.says).toMatch(/^The mapping old\.yaml \(\w{8}\) waits for a second person's/);
  expect(finding.says).toContain("shadow report --mapping FILE --ask");
  const posted = await fetch(`${daemon.url}/webhooks/json/tool`, { method: "POST", body: "{}" });
  expect(posted.status).toBe(503);
  await daemon.line(/mapping\.waits/);

  const ask = ["shadow", "report", "--ask", "--mapping"];
  const first = await crmsync(ANNA, ...ask, old!, "--why", "the first one");
  expect(first).toMatchObject({ code: 3, err: "" });
  expect(first.out).toMatch(
    /^asked: approval \w{6}, to use the mapping old\.yaml \(\w{8}\)\. Anot/,
  );
  const own = await crmsync(ANNA, "approvals", "approve", idIn(first.out));
  expect(own).toMatchObject({ code: 1, err: expect.stringContaining("another person") as string });
  expect((await waiting(daemon)).says).toMatch(
    /1 event waits unmapped\. anna via \S+ has asked for it: .*approvals approve/,
  );
  expect((await sandbox.relations()).size).toBe(0);
  expect(await crmsync(BEN, "approvals", "approve", idIn(first.out))).toMatchObject({ code: 0 });
  await isSent("1", "Trier");
  const again = await crmsync(ANNA, ...ask, old!);
  expect(again.err).toMatch(/is the approved mapping already: anna via .* was approved by ben via/);

  // Approved before it is rolled out: until then the former one is used.
  const second = await crmsync(ANNA, ...ask, next!, crm, "--json");
  const {
    asked: { id },
  } = JSON.parse(second.out.split("\n").at(-1) ?? "") as { asked: { id: string } };
  const listed = await crmsync(BEN, "approvals", "list", "--json");
  const asked = JSON.parse(listed.out.split("\n")[0] ?? "") as { mapping: AskedMapping };
  expect(asked).toMatchObject({
    id,
    act: "mapping",
    mapping: {
      name: "next.yaml",
      beside: { isApproved: true, rules: ["contact.city"], records: 3, differ: 1 },
    },
    about: [{ kind: "record", count: 1, fields: { city: 1 }, why: "another payload" }],
  });
  const numbers = JSON.parse(second.out.split("\n").at(-2) ?? "") as { newHash: string };
  expect(numbers.newHash).toBe(asked.mapping.hash);
  const plan = join(dir.path, "plan.ndjson");
  expect(await reconcile({ ...env, MY_TOKEN: ANNA }, [crm, "--plan", plan])).toMatchObject({
    code: 0,
  });
  expect(await crmsync(BEN, "approvals", "approve", id)).toMatchObject({ code: 0 });
  await daemon.push([eventOf(2)]);
  await isSent("2", "Trier");

  // A process without APPROVALS: one that runs has it.
  await using another = await localDaemon({ ...env, MAPPING: next! });
  const left = await waiting(daemon);
  expect(left.says).toContain("The mapping old.yaml");
  await another.push([{ ...eventOf(2), id: "newer", time: new Date().toISOString() }]);
  await isSent("2", "Nancy");
  // What is not approved any more makes no change, by whatever command.
  await another[Symbol.asyncDispose]();
  const applied = await reconcile({ ...env, MY_TOKEN: ANNA }, ["--apply", plan]);
  expect(applied).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /mapping .*old\.yaml is not approved \(APPROVALS=mapping\)/,
    ) as string,
  });
});

test("the approved mapping may be used, and the one before until then; a module never", async () => {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const redis = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
  const { approvals, ...stores } = openStores(readConfig(env), redis);
  onTestFinished(() => stores.close());
  const all = async (...own: string[]) => {
    const may: boolean[] = [];
    for (const hash of ["a", "b", "c", undefined]) may.push(await approvals.mayMap(own, hash));
    return may;
  };
  const approve = async (hash: string) => {
    const one = { mapping: { hash } } as unknown as Approval;
    expect(await approvals.commit([], [approvals.approvedMappingCall(one)])).toBe(true);
  };
  expect(await all()).toEqual([true, true, true, true]);
  expect(await all("mapping")).toEqual([false, false, false, false]);
  // Another process has the act.
  await approvals.keepRule({ acts: ["mapping"], holders: {} });
  expect(await all()).toEqual([false, false, false, false]);
  await approve("a");
  expect(await all()).toEqual([true, false, false, false]);
  // Never used, because the next one was approved before.
  await approve("b");
  await approve("c");
  expect(await approvals.mayMap([], "b")).toBe(false);
  expect(await approvals.mayMap([], "a")).toBe(true);
  expect(await approvals.mayMap([], "c")).toBe(true);
  expect(await all()).toEqual([false, false, true, false]);
});
