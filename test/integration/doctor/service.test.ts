import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject, onTestFinished, expect, test } from "vitest";
import { checkConstants } from "../../../src/operate/doctor/configuration.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
import { checkOtherPrefixes } from "../../../src/operate/doctor/processes.ts";
import { checkService } from "../../../src/operate/doctor/service.ts";
import { openService } from "../../../src/core/service/open-service.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { personMapping } from "../../support/person-mapping.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const ADDRESS = { baseUrl: "http://127.0.0.1:9", token: () => "token" };

test("while the hour is spent, the doctor says so, and that the daemon has another limit", async () => {
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    QUOTA_PER_HOUR: "20",
    QUOTA_LIVE_RESERVE: "5",
  };
  const { config, redis } = newRuntime(env);
  const daemon = openService(config, redis, ADDRESS, { setsLimits: true });
  onTestFinished(() => daemon.close());
  for (let n = 0; n < 20; n += 1) await daemon.quota.acquire("live");
  const doctor = newRuntime({ ...env, QUOTA_PER_HOUR: "500" });
  expect(await checkService(doctor, ADDRESS.baseUrl, "token")).toMatchObject([
    { name: "quota", says: expect.stringMatching(/is 500 here, and 20 where/) as string },
    { name: "token", says: expect.stringMatching(/the hour's quota is spent, until/) as string },
  ]);
});

test("constants of the mapping that the tenant's lists lack are named, once the lists are known", async () => {
  await using dir = await tempDir();
  const MAPPING = join(dir.path, "mapping.yaml");
  const lines = [
    "branch: { value: zurich }",
    `service: { from: services, fallback: '"Family office"', table: { PM: portfolio, FO: family_office } }`,
    "nationality: { value: CH }",
  ];
  await writeFile(MAPPING, personMapping(...lines));
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), MAPPING };
  const stores = newRuntime(env);
  expect(await checkConstants(stores)).toEqual([]);
  const fields = {
    branch: { type: "string", values: ["Zürich West", "Bern"] },
    nationality: { type: "string", values: [] },
    service: { type: "string", values: ["family_office", "portfolios"] },
  };
  await stores.tenantLists.store({ fields }, 0);
  expect(await checkConstants(stores)).toMatchObject([
    {
      name: "mapping and value lists",
      result: "warn",
      says: `contact, service: "portfolio" is not on the tenant's list of service (2 values); did you mean portfolios?`,
    },
    { says: `contact, branch: "zurich" is not on the tenant's list of branch (2 values)` },
  ]);
  for (const name of ["business-relation", "generic", "no-such-mapping"]) {
    expect(await checkConstants(newRuntime({ ...env, MAPPING: name }))).toEqual([]);
  }
});

test("a shell with another prefix than the daemon is told, unless a process runs under its own", async () => {
  await using redis = await ownRedis();
  const env = { REDIS_URL: redis.url };
  const daemon = newRuntime({ ...env, QUEUE_PREFIX: "{daemon}" });
  const shell = newRuntime({ ...env, QUEUE_PREFIX: "{shell}" });
  const one = { id: "host:1", version: "1", roles: ["sync"], startedAt: 0 };
  await daemon.heartbeats.beat(one);
  expect(await checkOtherPrefixes(shell)).toMatchObject([
    {
      result: "warn",
      says: "QUEUE_PREFIX is {shell} in this shell, where no process runs; processes run under {daemon}",
    },
  ]);
  expect(await checkOtherPrefixes(daemon)).toEqual([]);
  await shell.heartbeats.beat(one);
  expect(await checkOtherPrefixes(shell)).toEqual([]);
});

test("a change that waits under a prefix where no process runs is told, wherever it stands", async () => {
  await using redis = await ownRedis();
  const shell = newRuntime({ REDIS_URL: redis.url, QUEUE_PREFIX: "{shell}" });
  const { later, line } = keysOf("{old}");
  for (const place of [line("live"), line("bulk"), later]) {
    await shell.redis.zadd(place, 1, "a");
    expect(await checkOtherPrefixes(shell)).toMatchObject([
      { says: "changes wait under QUEUE_PREFIX {old}, and no process runs there" },
    ]);
    await shell.redis.del(place);
  }
});
