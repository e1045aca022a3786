import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { type SandboxAccess, startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { spawnCrmsync } from "../support/process.ts";
import { waitFor } from "../support/wait-for.ts";

async function writes(sandbox: SandboxAccess): Promise<number> {
  const requests = await sandbox.requests();
  return Object.entries(requests)
    .filter(([name]) => /create|update/.test(name))
    .reduce((sum, [, count]) => sum + count, 0);
}

describe("the path of a change", () => {
  it("created, updated, deleted and restored records arrive", async () => {
    await using sandbox = await localSandbox();
    await using daemon = await localDaemon(envFor(sandbox));
    const arrives = (crmCode: string, fields: Record<string, unknown>) =>
      waitFor(
        async () => {
          const relation = (await sandbox.relations()).get(crmCode);
          return Object.entries(fields).every(([key, value]) => relation?.[key] === value);
        },
        { what: `${crmCode} with ${JSON.stringify(fields)}` },
      );
    await daemon.push([personEvent("a/b +ü#1"), personEvent("2")]);
    await arrives("a/b +ü#1", { firstName: "Ada", relationStatus: "active" });
    await daemon.push([personEvent("a/b +ü#1", { firstName: "Eda" })]);
    await arrives("a/b +ü#1", { firstName: "Eda" });
    const bare = { data: undefined };
    await daemon.push([personEvent("2", {}, { ...bare, type: "crm.record.deleted" })]);
    await arrives("2", { relationStatus: "terminated", lastName: "Muster" });
    await daemon.push([personEvent("2", {}, { ...bare, type: "crm.record.restored" })]);
    await arrives("2", { relationStatus: "active", lastName: "Muster" });
  });

  it("accepts a job of any BullMQ client", async () => {
    await using sandbox = await localSandbox();
    const env = envFor(sandbox);
    await using daemon = await localDaemon(env);
    const connection = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
    const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
    const { time: _, ...timeless } = personEvent("foreign");
    await queue.add("anything", timeless);
    await waitFor(async () => (await sandbox.relations()).has("foreign"), {
      what: "the record arrives",
    });
    await queue.close();
    connection.disconnect();
    await waitUntilSettled(daemon);
    expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
  });

  it("keeps bad records as dead letters, without a request", async () => {
    await using sandbox = await localSandbox();
    const env = envFor(sandbox);
    await using daemon = await localDaemon(env);
    const connection = new Redis(env.REDIS_URL);
    const queue = new Queue("crm-events", { connection, prefix: env.QUEUE_PREFIX });
    await queue.add("bad", { no: "event" });
    await queue.add("bad", personEvent("1", { lastName: "", birthDate: "1980-02-31" }));
    await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
      what: "two dead letters",
    });
    expect(await writes(sandbox)).toBe(0);
    await daemon.push([personEvent("1", { birthDate: "1980-02-28" })]);
    await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 1, {
      what: "the corrected record removes its dead letter",
    });
    await queue.close();
    connection.disconnect();
  });
});

describe("cost in requests", () => {
  it("six hundred updates of 100 known records cost at most one request per net change", async () => {
    await using sandbox = await localSandbox();
    const env = envFor(sandbox, {
      QUOTA_PER_HOUR: "1000",
      QUOTA_BURST: "20",
      QUOTA_BURST_MS: "100",
    });
    await using daemon = await localDaemon(env);
    const codes = Array.from({ length: 100 }, (_, n) => `r${n}`);
    await daemon.push(codes.map((code) => personEvent(code)));
    await waitUntilSettled(daemon);
    const before = await writes(sandbox);
    const updates = Array.from({ length: 600 }, (_, n) =>
      personEvent(`r${(n * 7919) % 100}`, { firstName: `version ${n}` }),
    );
    for (let start = 0; start < updates.length; start += 200) {
      expect((await daemon.push(updates.slice(start, start + 200))).status).toBe(202);
    }
    await waitUntilSettled(daemon);
    const spent = (await writes(sandbox)) - before;
    const netChanges = await daemon.metric("crmsync_changes_total", { outcome: "updated" });
    expect(netChanges).toBeGreaterThanOrEqual(100);
    expect(spent).toBe(netChanges);
    const relations = await sandbox.relations();
    for (let n = 500; n < 600; n += 1) {
      expect(relations.get(`r${(n * 7919) % 100}`)).toMatchObject({ firstName: `version ${n}` });
    }
    expect((await sandbox.requests())["update 429"] ?? 0).toBe(0);
  });

  it("knows after its first warm-up what the service has", async () => {
    await using sandbox = await localSandbox();
    await using first = await localDaemon(envFor(sandbox));
    await first.push([personEvent("1"), personEvent("2")]);
    await waitUntilSettled(first);
    await using second = await localDaemon(envFor(sandbox));
    await second.push([personEvent("1"), personEvent("2", { firstName: "Eda" })]);
    await waitUntilSettled(second);
    const changes = (outcome: string) => second.metric("crmsync_changes_total", { outcome });
    expect([await changes("unchanged"), await changes("updated")]).toEqual([1, 1]);
    expect((await sandbox.requests())["create 409"] ?? 0).toBe(0);
  });
});

describe("crashes and shutdown", () => {
  it("loses nothing when it is killed with SIGKILL under load", async () => {
    await using sandbox = await localSandbox();
    await using dir = await tempDir();
    const { REDIS_URL: _, ...env } = envFor(sandbox, {
      DATA_DIR: dir.path,
      QUEUE_PREFIX: "{crmsync}",
      QUOTA_BURST: "20",
      QUOTA_BURST_MS: "200",
      SERVICE_TIMEOUT_MS: "1000",
    });
    const events = Array.from({ length: 240 }, (_, n) =>
      personEvent(`r${n % 80}`, { firstName: `version ${n}` }),
    );
    const killed = await startDaemon(env);
    expect((await killed.push(events)).status).toBe(202);
    await waitFor(async () => (await sandbox.relations()).size > 8, {
      what: "the first records arrive",
    });
    killed.process.kill("SIGKILL");
    await killed.process.ended;
    await using next = await startDaemon(env);
    await waitUntilSettled(next);
    const relations = await sandbox.relations();
    expect(relations.size).toBe(80);
    for (let n = 160; n < 240; n += 1) {
      expect(relations.get(`r${n % 80}`)).toMatchObject({ firstName: `version ${n}` });
    }
  });

  it("ends soon after SIGTERM although its quota is exhausted for an hour", async () => {
    await using sandbox = await localSandbox();
    const env = envFor(sandbox, { QUOTA_PER_HOUR: "5", QUOTA_BURST: "5", QUOTA_LIVE_RESERVE: "1" });
    await using daemon = await startDaemon(env);
    await daemon.push(Array.from({ length: 20 }, (_, n) => personEvent(`r${n}`)));
    await waitFor(async () => (await daemon.metric("crmsync_quota_remaining")) === 0, {
      what: "the quota is spent",
    });
    daemon.process.kill("SIGTERM");
    expect(await daemon.process.ended).toEqual({ code: 0, signal: null });
  });

  it("does not start a second daemon on the same DATA_DIR", async () => {
    await using dir = await tempDir();
    await using first = await startDaemon({ DATA_DIR: dir.path }, ["--sandbox"]);
    await using second = spawnCrmsync(["start", "--sandbox"], {
      env: { DATA_DIR: dir.path, HTTP_PORT: "0" },
    });
    expect((await second.ended).code).toBe(1);
    expect(second.stderr.join("\n")).toContain(String(first.process.pid));
  });

  it("lists all problems of its configuration at once, and exits with 78", async () => {
    await using dir = await tempDir();
    await mkdir(join(dir.path, "empty"));
    await using daemon = spawnCrmsync(["start"], {
      env: {
        HTTP_PORT: "http",
        QUOTA_BURST: "0",
        MAPPING: "nothing",
        SERVICE_TOKEN: "a",
        SERVICE_TOKEN_FILE: "b",
        LOG_LEVEL: "loud",
      },
    });
    expect((await daemon.ended).code).toBe(78);
    const said = daemon.stderr.join("\n");
    for (const name of ["HTTP_PORT", "QUOTA_BURST", "SERVICE_TOKEN_FILE", "LOG_LEVEL"]) {
      expect(said).toContain(name);
    }
  });
});
