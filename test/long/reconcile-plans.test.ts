/** `crmsync reconcile` as a user runs it: real processes, the real sandbox, its own count of requests. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon } from "../support/in-process.ts";
import { newRuntime } from "../support/new-runtime.ts";
import { spawnCrmsync } from "../support/process.ts";
import { codes, lines, person, reconcile, sandboxWith, type Fields } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const ENTRIES = 320;

/** Waits until 300 of a plan's entries wait: as many as may, while nothing sends them. */
async function waitUntilFed(env: ReturnType<typeof envFor>): Promise<void> {
  const { keys, redis } = newRuntime({ QUEUE_PREFIX: env.QUEUE_PREFIX });
  await waitFor(async () => (await redis.zcard(keys.line("bulk"))) === 300, {
    what: "300 entries wait",
  });
  await waitFor(async () => (await redis.hget(keys.feedingPlan, "done")) === "300", {
    what: "the plan is noted as far",
  });
}

test("a plan is not begun if one of an older snapshot went on after it was made", async () => {
  await using dir = await tempDir();
  const all = (city: string) => codes(0, ENTRIES).map((n) => person(n, { city }));
  await using sandbox = await sandboxWith(dir, all("Trier"));
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const exported = async (name: string, people: readonly unknown[]) => {
    await writeFile(join(dir.path, name), lines(people));
    return join(dir.path, name);
  };
  const first = await exported("crm-1.ndjson", all("Bonn"));
  // The last one is as the service has it, and the plan of the first one still comes to it.
  const last = person(ENTRIES - 1, { city: "Trier" });
  const later = await exported("crm-2.ndjson", [...all("Bonn").slice(0, ENTRIES - 1), last]);
  const asOf = ["--as-of", "2026-01-01T09:00:00Z"];
  // Nothing sends its changes.
  const args = [first, "--as-of", "2026-01-01T08:00:00Z", "--apply", "--yes", "--accept", "city"];
  await using feeding = spawnCrmsync(["reconcile", ...args], { env });
  await waitUntilFed(env);
  const { out } = await reconcile(env, [later, ...asOf, "--json"]);
  const { counts, plan } = JSON.parse(out) as { counts: Fields; plan: { file: string } };
  expect(counts).toMatchObject({ waiting: 300, different: ENTRIES - 301, equal: 1 });
  await using daemon = await localDaemon(env);
  expect((await feeding.ended).code, feeding.stderr.join("")).toBe(0);
  const refused = await reconcile(env, ["--apply", plan.file, "--accept", "city"]);
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /a plan of an older snapshot .* after this one was made: comp/,
    ) as string,
  });
  expect(
    (await reconcile(env, [later, ...asOf, "--apply", "--yes", "--accept", "city"])).code,
  ).toBe(0);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get(`p${ENTRIES - 1}`)).toMatchObject({ city: "Trier" });
});

test("the same command goes on with its interrupted plan in the file of --plan, and says so", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox, { DATA_DIR: dir.path });
  const file = join(dir.path, "crm.ndjson");
  await writeFile(file, lines(codes(0, ENTRIES).map((n) => person(n))));
  const args = [file, "--plan", join(dir.path, "own.plan"), "--apply", "--yes", "--json"];
  {
    // Nothing sends its changes.
    await using command = spawnCrmsync(["reconcile", ...args], { env });
    await waitUntilFed(env);
    command.kill("SIGKILL");
    await command.ended;
  }
  // The plan of another snapshot does not take its place.
  const other = join(dir.path, "other.ndjson");
  await writeFile(other, lines([person(900)]));
  const refused = await reconcile(env, [other, "--plan", join(dir.path, "own.plan")]);
  expect(refused).toMatchObject({
    code: 1,
    err: expect.stringMatching(/own\.plan is a plan of .* that was begun and is not fin/) as string,
  });
  expect((await reconcile(env, ["--list"])).out).toMatch(/plan: in the file that --plan has named/);
  await using daemon = await localDaemon(env);
  const again = await reconcile(env, [...args, "--terminate-missing"]);
  expect(JSON.parse(again.out), again.err).toMatchObject({
    entries: ENTRIES,
    applied: { sent: ENTRIES - 300 },
  });
  expect(again.err).toMatch(/goes on with the plan .*own\.plan of .*, as it was made/);
  await waitUntilSettled(daemon);
  expect((await reconcile(env, ["--list"])).out).toMatch(/^[^\n]*\n {2}carried out: 320 of 320/);
});

test("a command that was frozen carries out no plan that another one has taken over", async () => {
  await using dir = await tempDir();
  await using sandbox = await sandboxWith(dir, []);
  const env = envFor(sandbox);
  /** Each on a machine of its own. */
  const begin = async (name: string, city: string) => {
    const file = join(dir.path, `${name}.ndjson`);
    await writeFile(file, lines(codes(0, ENTRIES).map((n) => person(n, { city }))));
    const args = ["reconcile", file, "--apply", "--yes", "--json"];
    return spawnCrmsync(args, { env: { ...env, DATA_DIR: join(dir.path, name) } });
  };
  // Nothing sends their changes.
  await using frozen = await begin("first", "Trier");
  await waitUntilFed(env);
  const { keys, redis } = newRuntime({ QUEUE_PREFIX: env.QUEUE_PREFIX });
  const ownerNow = () => redis.get(keys.planOwner);
  const owner = await ownerNow();
  frozen.kill("SIGSTOP");
  await using next = await begin("next", "Metz");
  await waitFor(async () => ![owner, null].includes(await ownerNow()), {
    what: "the next one takes over",
  });
  frozen.kill("SIGCONT");
  expect(await frozen.ended).toMatchObject({ code: 1 });
  expect(frozen.stderr.join("")).toContain("another one may carry out a plan");
  await using daemon = await localDaemon(env);
  expect((await next.ended).code, next.stderr.join("")).toBe(0);
  await waitUntilSettled(daemon);
  const relations = [...(await sandbox.relations()).values()];
  expect(relations.map(({ city }) => city)).toEqual(relations.map(() => "Metz"));
});
