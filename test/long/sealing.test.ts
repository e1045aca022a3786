/** STATE_KEY on real processes: what lies in Redis, a rotation under load, a key that is wrong. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { findEmbeddedRedis } from "../../src/ops/embedded-redis.ts";
import { startDaemon, waitUntilSettled, type SandboxAccess } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { textOfFiles } from "../support/text-of-files.ts";
import { waitFor } from "../support/wait-for.ts";

const OLD = Buffer.alloc(32, 1).toString("base64");
const NEW = Buffer.alloc(32, 2).toString("base64");

const sealedEnv = (redis: OwnRedis, sandbox: SandboxAccess, stateKey: string) =>
  envOn(redis, sandbox, { STATE_KEY: stateKey });

const PEOPLE = 120;
const people = (firstName: string) =>
  Array.from({ length: PEOPLE }, (_, n) => personEvent(`p${n}`, { firstName }));

const writes = async (sandbox: SandboxAccess): Promise<number> => {
  const requests = Object.entries(await sandbox.requests());
  return requests
    .filter(([name]) => /^(create|update)/i.test(name))
    .reduce((sum, [, n]) => sum + n, 0);
};

test("a rotation under load: nothing is lost, sent twice or refused, and the old key can go", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
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
  await using sandbox = await localSandbox();
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

test("a file that was rewritten while a change waited is rewritten once more when it is sent", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
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
