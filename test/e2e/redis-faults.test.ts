import { expect, it } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import { type LocalSandbox, localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const envFor = (redis: OwnRedis, sandbox: LocalSandbox) =>
  envOn(redis, sandbox, { SERVICE_TIMEOUT_MS: "1000" });

const arrives = (sandbox: LocalSandbox, crmCode: string, firstName: string) =>
  waitFor(async () => (await sandbox.relations()).get(crmCode)?.["firstName"] === firstName, {
    what: `${crmCode} arrives as ${firstName}`,
  });

it("unreachable at the start: the daemon waits, logs few lines, and starts when Redis is up", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await redis.kill();
  await using daemon = spawnCrmsync(["start", "--json"], {
    env: { HTTP_PORT: "0", INGEST_AUTH: "none", ...envFor(redis, sandbox) },
  });
  await daemon.line(/redis.unreachable/);
  expect(daemon.stderr.length).toBeLessThan(20);
  await redis.start();
  const [line] = await daemon.line(/^\{.*"redisUrl".*\}$/);
  const { url } = JSON.parse(line) as { url: string };
  await waitFor(async () => (await fetch(`${url}/readyz`)).ok, { what: "ready" });
});

it("killed and restarted: 503 meanwhile, and no accepted event is lost", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(redis, sandbox));
  await daemon.push([personEvent("1")]);
  await arrives(sandbox, "1", "Ada");

  await daemon.push(Array.from({ length: 50 }, (_, n) => personEvent(`b${n}`)));
  await redis.kill();
  const unavailable = await daemon.push([personEvent("1", { firstName: "Lost" })]);
  expect(unavailable.status).toBe(503);
  expect(Number(unavailable.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await fetch(`${daemon.url}/livez`)).status).toBe(200);
  expect((await fetch(`${daemon.url}/readyz`)).status).toBe(503);
  expect((await fetch(`${daemon.url}/metrics`)).status).toBe(200);

  await redis.start();
  await waitFor(async () => (await daemon.push([personEvent("1", { firstName: "Eda" })])).ok, {
    what: "events are accepted again",
  });
  await arrives(sandbox, "1", "Eda");
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).size).toBe(51);
  expect(daemon.log.length).toBeLessThan(60);
});

it("full: 503, and events are accepted again when there is memory", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(redis, sandbox));
  await daemon.push([personEvent("1")]);
  await arrives(sandbox, "1", "Ada");
  await redis.client.config("SET", "maxmemory", "1mb");
  const full = await daemon.push([personEvent("1", { firstName: "Lost" })]);
  expect(full.status).toBe(503);
  // What an operator does about it works, with its line of the audit trail.
  for (const act of ["pause", "resume"]) {
    const env = { ...envFor(redis, sandbox), AUDIT_LOG: "stdout" };
    await using command = localCrmsync(["bulk", act], { env });
    expect(await command.ended, command.stderr.join("\n")).toMatchObject({ code: 0 });
  }
  await redis.client.config("SET", "maxmemory", "0");
  expect((await daemon.push([personEvent("1", { firstName: "Eda" })])).status).toBe(202);
  await arrives(sandbox, "1", "Eda");
});

it("a read-only replica: 503, and events are accepted again when it is promoted", async () => {
  await using primary = await ownRedis();
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(redis, sandbox));
  await daemon.push([personEvent("1")]);
  await arrives(sandbox, "1", "Ada");
  await redis.client.replicaof("127.0.0.1", new URL(primary.url).port);
  await waitFor(
    async () => (await redis.client.info("replication")).includes("master_link_status:up"),
    {
      what: "the replica is in sync",
    },
  );
  expect((await daemon.push([personEvent("1", { firstName: "Lost" })])).status).toBe(503);
  await redis.client.call("REPLICAOF", "NO", "ONE");
  await waitFor(async () => (await daemon.push([personEvent("1", { firstName: "Eda" })])).ok, {
    what: "events are accepted again",
  });
  await arrives(sandbox, "1", "Eda");
});

it("emptied by a failover: the ledger is warmed once more, and no create is answered 409", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(redis, sandbox));
  await daemon.push(Array.from({ length: 20 }, (_, n) => personEvent(`r${n}`)));
  await waitUntilSettled(daemon);
  const lists = (await sandbox.requests())["list 200"] ?? 0;
  await redis.client.flushall();
  await waitFor(async () => ((await sandbox.requests())["list 200"] ?? 0) > lists, {
    what: "the service is listed again",
  });
  await daemon.push(
    Array.from({ length: 20 }, (_, n) => personEvent(`r${n}`, { firstName: "Eda" })),
  );
  await arrives(sandbox, "r19", "Eda");
  await waitUntilSettled(daemon);
  expect((await sandbox.requests())["create 409"] ?? 0).toBe(0);
  const listings = { operation: "list", code: "200" };
  expect(await daemon.metric("crmsync_service_requests_total", listings)).toBe(2);
  const relations = await sandbox.relations();
  expect([...relations.values()].every(({ firstName }) => firstName === "Eda")).toBe(true);
});
