/** STATE_KEY on real processes: what lies in Redis, a rotation under load, a key that is wrong. */
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { startDaemon, waitUntilSettled, type SandboxAccess } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { errorResponse, startServiceProxy } from "../support/service-proxy.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { textOfFiles } from "../support/text-of-files.ts";
import { textOfKeys } from "../support/text-of-keys.ts";
import { waitFor } from "../support/wait-for.ts";

const OLD = Buffer.alloc(32, 1).toString("base64");
const NEW = Buffer.alloc(32, 2).toString("base64");

const sealedEnv = (redis: OwnRedis, sandbox: SandboxAccess, stateKey: string) =>
  envOn(redis, sandbox, { STATE_KEY: stateKey });

const PEOPLE = 20;
const people = (firstName: string) =>
  Array.from({ length: PEOPLE }, (_, n) => personEvent(`p${n}`, { firstName }));

test("a wrong key, and none: the start is refused with a sentence, and nothing is changed", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = sealedEnv(redis, sandbox, OLD);
  {
    await using daemon = await localDaemon({ ...env, SERVICE_BASE_URL: "http://127.0.0.1:1" });
    await daemon.push(people("Waiting"));
    await waitFor(async () => (await redis.client.zcard("{crmsync}:line:live")) === PEOPLE, {
      what: "all are staged",
    });
  }
  const staged = await redis.client.hget("{crmsync}:staged:p1", "p");
  for (const wrong of [NEW, ""]) {
    await using refused = localCrmsync(["start"], { env: { ...env, STATE_KEY: wrong } });
    expect((await refused.ended).code).toBe(78);
    const said = refused.stderr.join("\n");
    expect(said).toMatch(/sealed with the key \S{8}, and STATE_KEY/);
    expect(said).not.toMatch(/\n\s+at /);
  }
  expect(await redis.client.hget("{crmsync}:staged:p1", "p")).toBe(staged);
  // With the right key everything goes on.
  await using daemon = await localDaemon(env);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).size).toBe(PEOPLE);
});

test("during a backlog no value of a person lies in Redis, nor in its AOF", async () => {
  const redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = { ...sealedEnv(redis, sandbox, OLD), SERVICE_BASE_URL: "http://127.0.0.1:1" };
  await using daemon = await localDaemon(env);
  await daemon.push(
    Array.from({ length: 20 }, (_, n) =>
      personEvent(`p${n}`, { firstName: "Zacharias", email: `zacharias${n}@example.com` }),
    ),
  );
  await waitFor(async () => (await redis.client.zcard("{crmsync}:line:live")) === 20, {
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

test("the file of the embedded Redis is rewritten after a start, and once everything is sent", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  await using proxy = await startServiceProxy(sandbox.url);
  proxy.answer = () => errorResponse(503);
  await using daemon = await startDaemon({
    DATA_DIR: dir.path,
    SERVICE_BASE_URL: proxy.url,
    SERVICE_TOKEN: sandbox.token,
    // A day is 24 minutes, and two rewrites are 5 s apart.
    QUOTA_HOUR_MS: "60000",
  });
  const files = async () =>
    [...(await textOfFiles(join(dir.path, "redis", "appendonlydir"))).values()].join("\n");
  const isRewrittenWithout = (name: string) =>
    waitFor(async () => !(await files().catch(() => name)).includes(name), {
      what: `the file is rewritten without ${name}`,
    });
  await daemon.push([personEvent("p1", { firstName: "Zacharias" })]);
  await daemon.push([personEvent("p1", { firstName: "Balthasar" })]);
  expect(await files()).toContain("Zacharias");
  // How old it is after a start, nobody knows: it is rewritten also while changes wait.
  await isRewrittenWithout("Zacharias");
  await waitFor(async () => (await files()).includes("Balthasar"), {
    what: "it waits in the file",
  });
  proxy.answer = () => undefined;
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("p1")?.["firstName"]).toBe("Balthasar");
  await isRewrittenWithout("Balthasar");
});

test("push without the key writes nothing into a sealed Redis", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  const env = sealedEnv(redis, sandbox, OLD);
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("p1")]);
  await waitUntilSettled(daemon);
  const without = envOn(redis, sandbox);
  const input = JSON.stringify(personEvent("p2", { firstName: "Xq7Leak" }));
  for (const shell of [without, { ...without, STATE_KEY: NEW }]) {
    await using command = localCrmsync(["push", "-"], { env: shell, input });
    expect(await command.ended).toMatchObject({ code: 78 });
    expect(command.stderr.join("\n")).toMatch(/sealed with the key \S{8}, and STATE_KEY/);
  }
  expect([...(await textOfKeys(redis.client, "{crmsync}")).values()].join()).not.toContain(
    "Xq7Leak",
  );
});
