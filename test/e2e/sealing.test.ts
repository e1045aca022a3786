/** STATE_KEY on real processes: what lies in Redis, a rotation under load, a key that is wrong. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { findEmbeddedRedis } from "../../src/ops/embedded-redis.ts";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type SandboxProcess,
} from "../support/crmsync.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { textOfFiles } from "../support/text-of-files.ts";
import { textOfKeys } from "../support/text-of-keys.ts";
import { waitFor } from "../support/wait-for.ts";

const OLD = Buffer.alloc(32, 1).toString("base64");
const NEW = Buffer.alloc(32, 2).toString("base64");

const sealedEnv = (redis: OwnRedis, sandbox: SandboxProcess, stateKey: string) =>
  envOn(redis, sandbox, { STATE_KEY: stateKey });

const PEOPLE = 120;
const people = (firstName: string) =>
  Array.from({ length: PEOPLE }, (_, n) => personEvent(`p${n}`, { firstName }));

const writes = async (sandbox: SandboxProcess): Promise<number> => {
  const requests = Object.entries(await sandbox.requests());
  return requests
    .filter(([name]) => /^(create|update)/i.test(name))
    .reduce((sum, [, n]) => sum + n, 0);
};

test("a rotation under load: nothing is lost, sent twice or refused, and the old key can go", async () => {
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  {
    await using daemon = await startDaemon(sealedEnv(redis, sandbox, OLD));
    await daemon.push(people("First"));
    await waitUntilSettled(daemon);
    await daemon.push(people("Second"));
    // It is killed with work under way: what it has sealed waits in Redis.
    daemon.process.kill("SIGKILL");
  }
  {
    await using daemon = await startDaemon(sealedEnv(redis, sandbox, `${NEW} ${OLD}`));
    await daemon.push(people("Third"));
    await waitUntilSettled(daemon);
    await waitFor(async () => (await redis.client.exists("{crmsync}:keyring:resealed")) === 0, {
      what: "everything is sealed with the new key",
    });
    expect(await daemon.metric("crmsync_dead_letters")).toBe(0);
  }
  await using daemon = await startDaemon(sealedEnv(redis, sandbox, NEW));
  const before = await writes(sandbox);
  expect(before).toBeGreaterThanOrEqual(2 * PEOPLE);
  await daemon.push(people("Third"));
  await waitUntilSettled(daemon);
  // The fingerprints are the same as before the rotation.
  expect(await writes(sandbox)).toBe(before);
  const names = [...(await sandbox.relations()).values()].map((one) => one["firstName"]);
  expect(new Set(names)).toEqual(new Set(["Third"]));
  expect(names).toHaveLength(PEOPLE);
});

test("the old key is removed too early: what needs it waits and says so, and is sent with it", async () => {
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  const env = sealedEnv(redis, sandbox, OLD);
  const run = async (stateKey: string, ...args: string[]) => {
    await using command = spawnCrmsync(args, { env: { ...env, STATE_KEY: stateKey } });
    await command.ended;
    return command.stdout.join("\n");
  };
  {
    await using daemon = await startDaemon(env);
    await run(OLD, "bulk", "pause");
    const bulk = { lane: "bulk" };
    await daemon.push([
      personEvent("p1", { firstName: "Waiting" }, bulk),
      personEvent("p2", {}, bulk),
    ]);
    await waitFor(async () => (await redis.client.zcard("{crmsync}:unsynced:bulk")) === 2, {
      what: "all are staged",
    });
  }
  {
    // Another process seals, and this one is killed before it does.
    await redis.client.set("{crmsync}:keyring:resealing", "another process", "PX", 600_000);
    await using daemon = await startDaemon({ ...env, STATE_KEY: `${NEW} ${OLD}` });
    daemon.process.kill("SIGKILL");
    await redis.client.del("{crmsync}:keyring:resealing");
  }
  {
    await using daemon = await startDaemon({ ...env, STATE_KEY: NEW });
    await daemon.push([personEvent("p2", { firstName: "Newer" })]);
    await waitFor(async () => (await sandbox.relations()).get("p2")?.["firstName"] === "Newer", {
      what: "a newer event replaces what cannot be opened",
    });
    await run(NEW, "bulk", "resume");
    const ofKey = /p1 .*: its change cannot be opened: sealed with the key \S{8}\n.*STATE_KEY/;
    await waitFor(async () => ofKey.test(await run(NEW, "why", "p1")), {
      what: "why names the key",
    });
    const isCounted = async () =>
      (await daemon.status()).findings.some(({ says }) => says.includes("cannot be opened"));
    await waitFor(isCounted, { what: "status counts it" });
    expect((await sandbox.relations()).has("p1")).toBe(false);
  }
  await using daemon = await startDaemon({ ...env, STATE_KEY: `${NEW} ${OLD}` });
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p1")?.["firstName"]).toBe("Waiting");
});

test("a wrong key, and none: the start is refused with a sentence, and nothing is changed", async () => {
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  const env = sealedEnv(redis, sandbox, OLD);
  {
    await using daemon = await startDaemon({ ...env, SERVICE_BASE_URL: "http://127.0.0.1:1" });
    await daemon.push(people("Waiting"));
    await waitFor(async () => (await redis.client.zcard("{crmsync}:unsynced:live")) === PEOPLE, {
      what: "all are staged",
    });
  }
  const staged = await redis.client.hget("{crmsync}:staged:p1", "p");
  for (const wrong of [NEW, ""]) {
    await using refused = spawnCrmsync(["start"], { env: { ...env, STATE_KEY: wrong } });
    expect((await refused.ended).code).toBe(78);
    const said = refused.stderr.join("\n");
    expect(said).toMatch(/sealed with the key \S{8}, and STATE_KEY/);
    expect(said).not.toMatch(/\n\s+at /);
  }
  expect(await redis.client.hget("{crmsync}:staged:p1", "p")).toBe(staged);
  // With the right key everything goes on.
  await using daemon = await startDaemon(env);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).size).toBe(PEOPLE);
});

test("during a backlog no value of a person lies in Redis, nor in its AOF", async () => {
  const redis = await ownRedis();
  await using sandbox = await startSandbox();
  const env = { ...sealedEnv(redis, sandbox, OLD), SERVICE_BASE_URL: "http://127.0.0.1:1" };
  await using daemon = await startDaemon(env);
  await daemon.push(
    Array.from({ length: 20 }, (_, n) =>
      personEvent(`p${n}`, { firstName: "Zacharias", email: `zacharias${n}@example.com` }),
    ),
  );
  await waitFor(async () => (await redis.client.zcard("{crmsync}:unsynced:live")) === 20, {
    what: "all are staged",
  });
  await using copy = new AsyncDisposableStack();
  copy.use(redis);
  const reader = new Redis(redis.url);
  copy.defer(() => reader.disconnect());
  for (const [key, text] of await textOfKeys(reader)) expect(text, key).not.toMatch(/zacharias/i);
  const [, dir = ""] = await reader.config("GET", "dir");
  const files = await textOfFiles(join(dir, "appendonlydir"));
  expect(files.size).toBeGreaterThan(0);
  for (const [file, text] of files) expect(text, file).not.toMatch(/zacharias/i);
});

test("once everything is sent, the file of the embedded Redis has no value of a person", async () => {
  await using dir = await tempDir();
  await using sandbox = await startSandbox();
  await using daemon = await startDaemon({
    DATA_DIR: dir.path,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_HOUR_MS: "60000",
  });
  const files = async () =>
    [...(await textOfFiles(join(dir.path, "redis", "appendonlydir"))).values()].join("\n");
  await daemon.push([personEvent("p1", { firstName: "Zacharias" })]);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p1")?.["firstName"]).toBe("Zacharias");
  expect(await files()).toContain("Zacharias");
  await waitFor(async () => !(await files().catch(() => "Zacharias")).includes("Zacharias"), {
    what: "the file is rewritten",
  });
});

test("after a start it is rewritten once also while changes wait: how old it is, nobody knows", async () => {
  await using dir = await tempDir();
  await using daemon = await startDaemon({
    DATA_DIR: dir.path,
    SERVICE_BASE_URL: "http://127.0.0.1:1",
    SERVICE_TOKEN: "unused",
    // A day is 24 minutes, and two rewrites are 5 s apart.
    QUOTA_HOUR_MS: "60000",
  });
  const files = async () =>
    [...(await textOfFiles(join(dir.path, "redis", "appendonlydir"))).values()].join("\n");
  await daemon.push([personEvent("p1", { firstName: "Zacharias" })]);
  await daemon.push([personEvent("p1", { firstName: "Balthasar" })]);
  expect(await files()).toContain("Zacharias");
  await waitFor(async () => !(await files().catch(() => "Zacharias")).includes("Zacharias"), {
    what: "the file is rewritten",
  });
});

test("a file that was rewritten while a change waited is rewritten once more when it is sent", async () => {
  await using dir = await tempDir();
  await using sandbox = await startSandbox();
  const env = {
    DATA_DIR: dir.path,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_HOUR_MS: "60000",
  };
  const bulk = async (act: string) => {
    await using command = spawnCrmsync(["bulk", act], { env });
    expect((await command.ended).code).toBe(0);
  };
  const files = async () =>
    [...(await textOfFiles(join(dir.path, "redis", "appendonlydir"))).values()].join("\n");
  {
    await using before = await startDaemon(env);
    await bulk("pause");
    await before.push([personEvent("p1", {}, { lane: "bulk" })]);
    before.process.kill("SIGTERM");
    await before.process.ended;
  }
  await using daemon = await startDaemon(env);
  const redis = new Redis((await findEmbeddedRedis(dir.path)) ?? "");
  const isRewritten = async () => /^aof_rewrites:[1-9]/m.test(await redis.info("persistence"));
  await waitFor(isRewritten, { what: "the file is rewritten" }).finally(() => redis.disconnect());
  await bulk("resume");
  await waitUntilSettled(daemon);
  // The state is packed: its key tells that it is there.
  const state = "{crmsync}:staged:p1";
  expect(await files()).toContain(state);
  await waitFor(async () => !(await files().catch(() => state)).includes(state), {
    what: "the file is rewritten once more",
  });
});

test("push without the key writes nothing into a sealed Redis", async () => {
  await using redis = await ownRedis();
  await using sandbox = await startSandbox();
  const env = sealedEnv(redis, sandbox, OLD);
  await using daemon = await startDaemon(env);
  await daemon.push([personEvent("p1")]);
  await waitUntilSettled(daemon);
  const without = envOn(redis, sandbox);
  const input = JSON.stringify(personEvent("p2", { firstName: "Xq7Leak" }));
  for (const shell of [without, { ...without, STATE_KEY: NEW }]) {
    await using command = spawnCrmsync(["push", "-"], { env: shell, input });
    expect(await command.ended).toMatchObject({ code: 78 });
    expect(command.stderr.join("\n")).toMatch(/sealed with the key \S{8}, and STATE_KEY/);
  }
  expect([...(await textOfKeys(redis.client, "{crmsync}")).values()].join()).not.toContain(
    "Xq7Leak",
  );
});
