import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue, type JobsOptions } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, it } from "vitest";
import { readConfig } from "../../src/base/config.ts";
import type { Check } from "../../src/operate/doctor/check.ts";
import { openStores } from "../../src/operate/status/stores.ts";
import { waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

async function doctor(env: Record<string, string>, ...options: string[]) {
  await using command = localCrmsync(["doctor", "--json", ...options], { env });
  const { code } = await command.ended;
  const checks = JSON.parse(command.stdout.join("\n")) as Check[];
  for (const { result, remedy } of checks) expect(remedy !== undefined).toBe(result !== "ok");
  const of = (name: string) => checks.find((check) => check.name === name);
  return { code, checks, of };
}

it("finds no problem, with one request", async () => {
  await using sandbox = await localSandbox();
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    SERVICE_TOKEN_ISSUED_AT: new Date().toISOString(),
    STATE_KEY: Buffer.alloc(32, 1).toString("base64"),
    INGEST_TOKEN: "a-secret-of-24-characters",
  };
  await using daemon = await localDaemon(env);
  const requested = async (operation: string) =>
    (await daemon.metric("crmsync_service_requests_total", { operation })) > 0;
  await waitFor(async () => (await requested("list")) && (await requested("schema-config")), {
    what: "the daemon has sent its own first requests",
  });
  const total = async () =>
    Object.values(await sandbox.requests()).reduce((sum, count) => sum + count, 0);
  const before = await total();
  const { code, checks } = await doctor(env);
  expect(checks.filter(({ result }) => result === "fail")).toEqual([]);
  expect(code).toBe(0);
  expect((await total()) - before).toBe(1);
  const other = await doctor({ ...env, QUOTA_PER_HOUR: "500" });
  expect(other.of("quota")).toMatchObject({
    result: "warn",
    says: expect.stringMatching(/^QUOTA_PER_HOUR is 500 here, and 1000 where/) as string,
  });
  expect((await daemon.status()).quota.limit).toBe(1000);
  expect(checks.some(({ name }) => name === "value lists, refresh")).toBe(false);
  const names = checks.map(({ name }) => name);
  for (const name of [
    "redis version",
    "redis policy",
    "redis durability",
    "clock, redis",
    "clock, service",
    "name of the service",
    "connection to the service",
    "token",
    "token age",
    "address",
    "mapping",
    "value lists",
    "processes",
  ]) {
    expect(names).toContain(name);
  }
});

it("names what is wrong: Redis, token, age, mapping, roles", async () => {
  await using sandbox = await localSandbox();
  await using redis = await ownRedis({ "maxmemory-policy": "allkeys-lru" });
  await redis.client.config("SET", "appendonly", "no");
  const { code, of } = await doctor({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: "wrong",
    SERVICE_TOKEN_ISSUED_AT: "2020-01-01",
    MAPPING: "nothing-like-it",
  });
  expect(code).toBe(1);
  for (const name of [
    "redis policy",
    "redis durability",
    "token",
    "token age",
    "mapping",
    "processes",
  ]) {
    expect(of(name), name).toMatchObject({ result: "fail" });
  }
});

it("warns of a Redis that answers before it writes or keeps values, and names a replica", async () => {
  await using primary = await ownRedis();
  await using redis = await ownRedis({ appendfsync: "everysec" });
  const env = { REDIS_URL: redis.url };
  const durability = (await doctor(env)).of("redis durability");
  expect(durability).toMatchObject({
    result: "warn",
    says: "appendfsync is everysec: a power failure may lose the changes accepted last",
  });
  expect(durability?.remedy).toMatch(/ redis call config set appendfsync always, and put it into/);
  expect((await doctor(env)).of("redis slow log")).toMatchObject({ result: "warn" });
  const sealed = { ...env, STATE_KEY: Buffer.alloc(32, 1).toString("base64") };
  expect((await doctor(sealed)).of("redis slow log")).toBeUndefined();
  await redis.client.config("SET", "slowlog-log-slower-than", "-1");
  expect((await doctor(env)).of("redis slow log")).toBeUndefined();
  await redis.client.set("{crmsync}:state-version", "overwritten");
  const overwritten = (await doctor(env)).of("redis");
  expect(overwritten?.says).toMatch(/^Redis rejects a command \(WRONGTYPE/);
  expect(overwritten?.remedy).toContain("docs/runbook.md#crmsyncstateunreadable");
  await redis.client.replicaof("127.0.0.1", new URL(primary.url).port);
  // Until it has the primary's data it answers nothing else.
  await expect.poll(() => redis.client.info("replication")).toContain("master_link_status:up");
  const { code, of } = await doctor(env);
  expect(code).toBe(1);
  expect(of("redis role")).toMatchObject({ result: "fail", remedy: expect.anything() as string });
});

it("names what start refuses, or could not work with", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const key = (byte: number) => Buffer.alloc(32, byte).toString("base64");
  const trail = join(dir.path, "audit.log");
  const env = {
    DATA_DIR: dir.path,
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    STATE_KEY: key(1),
    AUDIT_LOG: trail,
    AUDIT_KEY: key(3),
  };
  {
    await using daemon = await localDaemon(env);
    await daemon.push([personEvent("1")]);
    await waitUntilSettled(daemon);
    const { of } = await doctor({ ...env, RECONCILE_DIR: dir.path });
    for (const name of ["configuration", "encryption", "audit trail", "reconcile folder"]) {
      expect(of(name), name).toMatchObject({ result: "ok" });
    }
  }
  const wrong = {
    ...env,
    STATE_KEY: key(2),
    AUDIT_KEY: key(4),
    INGEST_AUTH: "none",
    HTTP_HOST: "0.0.0.0",
    RECONCILE_DIR: join(dir.path, "nowhere"),
    RECONCILE_CRON: "30 2 * * *",
    RECONCILE_FROM: "hubspot",
  };
  const { checks, of } = await doctor(wrong);
  const problems = checks.filter(({ name }) => name === "configuration").map(({ says }) => says);
  expect(problems).toEqual([
    expect.stringMatching(/^RECONCILE_FROM: to list hubspot, set HUBSPOT_TOKEN/),
    expect.stringMatching(/^INGEST_AUTH is none and HTTP_HOST is 0\.0\.0\.0/),
  ]);
  await using refused = spawnCrmsync(["start"], { env: wrong });
  expect(await refused.ended).toMatchObject({ code: 78 });
  for (const problem of problems) expect(refused.stderr.join("\n")).toContain(problem);
  expect(of("encryption")).toMatchObject({
    result: "fail",
    says: expect.stringMatching(/sealed with the key \S{8}, and STATE_KEY holds only/) as string,
  });
  expect(of("audit trail")).toMatchObject({
    result: "fail",
    says: `${trail}: its last line was made with a key that AUDIT_KEY does not hold`,
  });
  expect(of("reconcile folder")).toMatchObject({ result: "fail" });
  const trails: [string, string][] = [
    [dir.path, "fail"],
    ["/dev/full", "warn"],
  ];
  for (const [AUDIT_LOG, result] of trails) {
    expect((await doctor({ ...env, AUDIT_LOG })).of("audit trail")).toMatchObject({ result });
  }
});

it("names the address that the service denies", async () => {
  await using sandbox = await localSandbox();
  await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ fault: "blocked" }),
  });
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  };
  const { of } = await doctor(env);
  expect(of("address")?.result).toBe("fail");
  expect(of("address")?.says).toMatch(/127\.0\.0\.1|::1/);
});

it("names the network problem that a request only calls unavailable", async () => {
  await using dir = await tempDir();
  const common = { DATA_DIR: dir.path, SERVICE_TOKEN: "any" };
  const unknownName = await doctor({ ...common, SERVICE_BASE_URL: "https://nothing.invalid" });
  expect(unknownName.of("name of the service")?.result).toBe("fail");
  expect(unknownName.of("redis")?.says).toContain("no daemon is running");
  const closedPort = await doctor({ ...common, SERVICE_BASE_URL: "http://127.0.0.1:1" });
  expect(closedPort.of("connection to the service")?.says).toContain("ECONNREFUSED");
});

it("prints each mistake of a mapping on a line of its own", async () => {
  await using dir = await tempDir();
  const MAPPING = join(dir.path, "mapping.yaml");
  await writeFile(
    MAPPING,
    "version: 1\nobjects:\n  - object: contact\n    crmCode: 5\n    fields: {}\n",
  );
  await using command = localCrmsync(["doctor"], {
    env: { MAPPING, REDIS_URL: "redis://127.0.0.1:1" },
  });
  expect(await command.ended).toMatchObject({ code: 1 });
  expect(command.stdout.join("\n")).toMatch(
    /✗ fail mapping +the mapping .* has 2 problems:\n {20,}- .*:4: contact, crmCode: must be a text\n {20,}- /,
  );
});

it("ends a denial when the service accepts its request", async () => {
  await using sandbox = await localSandbox();
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  };
  await using daemon = await localDaemon({ ...env, QUOTA_BURST_MS: "100" });
  await waitUntilSettled(daemon);
  const revoked = await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ fault: "revoked", times: 1 }),
  });
  expect(revoked.ok).toBe(true);
  await daemon.push([personEvent("1")]);
  await expect.poll(() => daemon.metric("crmsync_auth_state", { state: "token_denied" })).toBe(1);
  expect((await doctor(env)).of("token")?.result).toBe("ok");
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
});

it("finds changes that were left behind under another QUEUE_PREFIX", async () => {
  await using sandbox = await localSandbox();
  await using redis = await ownRedis();
  const env = {
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  };
  const add = async (prefix: string, options: JobsOptions) => {
    const inbox = new Queue("crm-events", { connection: { url: redis.url }, prefix });
    await inbox.add("event", personEvent("1"), options);
    await inbox.close();
  };
  await add("{before}", {});
  await add("{first}", { priority: 1 });
  const stores = openStores(readConfig({ QUEUE_PREFIX: "{thin}" }), new Redis(redis.url));
  const pointer = { crm: "hubspot", subject: "contact/1" };
  await stores.thinEvents.put(pointer, "1", JSON.stringify(personEvent("1")), "live");
  await stores.close();
  const { checks } = await doctor(env);
  const says = checks.filter(({ name }) => name === "queue prefix").map((check) => check.says);
  const prefixes = says.map(
    (text) => /changes wait under QUEUE_PREFIX (\S+),/.exec(text)?.[1] ?? "",
  );
  expect(prefixes.toSorted()).toEqual(["{before}", "{first}", "{thin}"]);
});

it("has the daemon fetch the value lists, with a line in the audit trail", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    // A list counts as young for a second.
    QUOTA_HOUR_MS: "60000",
    AUDIT_LOG: join(dir.path, "audit.log"),
  };
  const refreshed = async () => (await doctor(env, "--refresh")).of("value lists, refresh");
  expect(await refreshed()).toMatchObject({ result: "warn" });
  await using daemon = await localDaemon(env);
  const fetched = () =>
    daemon.metric("crmsync_service_requests_total", { operation: "schema-config" });
  await waitFor(async () => (await fetched()) > 0, { what: "the first lists" });
  const before = await fetched();
  expect(await refreshed()).toMatchObject({ result: "ok" });
  await waitFor(async () => (await fetched()) > before, { what: "the lists are fetched again" });
  await waitFor(async () => (await readFile(env.AUDIT_LOG, "utf8")).includes('"lists.refresh"'), {
    what: "the line of the act",
  });
});
