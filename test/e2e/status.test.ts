import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, it } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import {
  startDaemon,
  startSandbox,
  waitUntilSettled,
  type SandboxAccess,
} from "../support/crmsync.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCommand } from "../support/process.ts";
import { requireTool } from "../support/requirements.ts";
import { tcpSwitch } from "../support/tcp-switch.ts";
import { tempDir } from "../support/temp-dir.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";
import type { Status } from "../../src/operate/status/status.ts";

const envFor = (sandbox: SandboxAccess, extra: Record<string, string> = {}) => ({
  REDIS_URL: inject("redisUrl"),
  QUEUE_PREFIX: uniquePrefix(),
  SERVICE_BASE_URL: sandbox.url,
  SERVICE_TOKEN: sandbox.token,
  QUOTA_BURST_MS: "100",
  ...extra,
});

async function status(env: Record<string, string>, ...args: string[]): Promise<string> {
  await using command = localCrmsync(["status", ...args], { env });
  expect(await command.ended).toEqual({ code: 0, signal: null });
  return command.stdout.join("\n");
}

const statusOf = async (env: Record<string, string>): Promise<Status> =>
  JSON.parse(await status(env, "--json")) as Status;

it("shows outcomes, dead letters and processes; the same over HTTP", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { SERVICE_TOKEN_ISSUED_AT: "2020-01-01" });
  await using daemon = await localDaemon(env);
  await daemon.push([personEvent("1"), personEvent("2"), personEvent("3", { lastName: "" })]);
  await waitUntilSettled(daemon);
  const seen = await waitFor(
    async () => {
      const now = await statusOf(env);
      return now.outcomesOfLastHour["created"] === 2 && now;
    },
    { what: "the outcomes are shown" },
  );
  expect(seen).toMatchObject({
    sendingStopped: [],
    backlog: { live: { records: 0, oldestAgeSeconds: 0 }, inbox: 0, drainedAt: null },
    outcomesOfLastHour: { created: 2, rejected: 1, updated: 0 },
    deadLetters: { total: 1, byReason: { invalid: 1, service_rejected: 0 } },
    denial: { state: "none", since: null },
    ledger: { state: "done" },
    redis: { durable: true },
  });
  expect(seen.processes).toMatchObject([{ roles: ["http", "intake", "sync"] }]);
  expect(Object.keys(seen.sources)).toEqual(["/crm/test"]);
  expect(seen.findings.map(({ runbook }) => runbook.split("#")[1])).toEqual([
    "crmsyncdeadletters",
    "crmsynctokenold",
  ]);
  const overHttp = await daemon.status();
  expect(Object.keys(overHttp)).toEqual(Object.keys(seen));
  expect(await status(env)).toMatch(/dead +1: invalid 1\n/);
});

it("names the exhausted hour and the denial, and when changes are sent again", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { QUOTA_PER_HOUR: "4", QUOTA_LIVE_RESERVE: "1" });
  await using daemon = await localDaemon(env);
  await daemon.push(Array.from({ length: 10 }, (_, n) => personEvent(`r${n}`)));
  const exhausted = await waitFor(
    async () => {
      const now = await statusOf(env);
      return now.quota.remaining === 0 && now.findings.length > 0 && now;
    },
    { what: "the hour is spent" },
  );
  expect(exhausted.findings[0]?.runbook).toContain("#crmsyncquotaexhausted");
  expect(Date.parse(exhausted.backlog.drainedAt ?? "")).toBeGreaterThan(Date.now() + 3_000_000);

  const other = envFor(sandbox);
  await using denied = await localDaemon(other);
  await waitFor(async () => (await statusOf(other)).ledger.state === "done", { what: "warm" });
  await armFault(sandbox, { fault: "revoked" });
  await denied.push([personEvent("1")]);
  const stopped = await waitFor(
    async () => {
      const now = await statusOf(other);
      return now.denial.state === "token_denied" && now.backlog.live.records === 1 && now;
    },
    { what: "the denial is shown" },
  );
  expect(stopped.findings[0]).toMatchObject({ severity: "stopped" });
  // The daemon still accepts events; /readyz names the reason why none is sent.
  const ready = await fetch(`${denied.url}/readyz`);
  expect(ready.status).toBe(200);
  expect(await ready.text()).toMatch(/denies the token \(401\)/);
  expect(stopped.backlog.drainedAt).toBeNull();
  expect(await status(other)).toMatch(/drained +unknown while sending is stopped/);
});

it("follows a primary that was swapped with its replica on purpose", async () => {
  await using first = await ownRedis();
  await using second = await ownRedis({ replicaof: `127.0.0.1 ${new URL(first.url).port}` });
  await waitFor(async () => (await first.client.wait(1, 0)) === 1, { what: "the replica follows" });
  await using address = await tcpSwitch(first.url);
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(sandbox, { REDIS_URL: address.url }));
  await daemon.push([personEvent("1")]);
  await waitUntilSettled(daemon);
  expect((await daemon.status()).sendingStopped).toEqual([]);

  await second.client.call("REPLICAOF", "NO", "ONE");
  await first.client.replicaof("127.0.0.1", Number(new URL(second.url).port));
  // The former primary ends no connection.
  address.moveNewTo(second.url);
  await waitFor(async () => (await daemon.push([personEvent("2")])).ok, { what: "accepted again" });
  await waitFor(async () => (await sandbox.relations()).has("2"), { what: "sent" });
  const sentAt = Date.now();
  const { findings, sendingStopped } = await waitFor(
    async () => {
      const status = await daemon.status();
      return Date.parse(status.at) > sentAt && status;
    },
    { what: "a new reading" },
  );
  expect(findings.map(({ says }) => says).join("\n")).not.toMatch(/rejects all writes/);
  expect(sendingStopped).toEqual([]);
  expect(await daemon.metric("crmsync_redis_up")).toBe(1);
});

it("says of an hour that only the service counts as spent whose word that is", async () => {
  const limits = ["--per-hour", "20", "--burst", "20"];
  await using sandbox = await startSandbox({ limits, flags: ["--rate-headers", "all"] });
  const headers = { authorization: `Bearer ${sandbox.token}` };
  for (let n = 0; n < 15; n += 1) {
    await fetch(`${sandbox.url}/v1.1/business-relations/of-another-program`, { headers });
  }
  const env = envFor(sandbox, { QUOTA_LIVE_RESERVE: "0" });
  await using daemon = await localDaemon(env);
  await daemon.push(Array.from({ length: 10 }, (_, n) => personEvent(`r${n}`)));
  const spent = await waitFor(
    async () => {
      const now = await daemon.status();
      return now.findings.some(({ runbook }) => runbook.endsWith("#crmsyncquotaexhausted")) && now;
    },
    { what: "the hour is spent" },
  );
  expect(spent.findings.map(({ says }) => says).join("\n")).toMatch(
    /The service says that 0 requests are left \(x-ratelimit-remaining\).*It counts 9\d\d more than we have sent/,
  );
  expect(spent.quota).toMatchObject({ limit: 1000, remaining: 0 });
  expect(await status(env)).toMatch(/0 of 1000 left .*9\d\d spent by the service's count alone/);
});

it("answers 503 and exports no shared state while Redis is down", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envFor(sandbox, { REDIS_URL: redis.url }));
  expect((await fetch(`${daemon.url}/status`)).status).toBe(200);
  await redis.kill();
  expect(
    await waitFor(async () => (await fetch(`${daemon.url}/status`)).status === 503, {
      what: "503",
    }),
  ).toBe(true);
  expect(await daemon.metric("crmsync_redis_up")).toBe(0);
  const text = await (await fetch(`${daemon.url}/metrics`)).text();
  expect(text).not.toMatch(/^crmsync_(quota_remaining|dead_letters|queue_jobs)[ {]/m);
});

it("says of a secret's file that it cannot be used, and until when it goes on without", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const file = join(dir.path, "token");
  const write = async (text: string) => {
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
  };
  await write(sandbox.token);
  const { SERVICE_TOKEN: _, ...env } = envFor(sandbox, { SERVICE_TOKEN_FILE: file });
  await using daemon = await localDaemon(env);
  await write(`${sandbox.token}\nand another one\n`);
  const said = async () =>
    (await daemon.status()).findings.find(({ runbook }) => runbook.endsWith("cannot-be-used"))
      ?.says;
  const first = await waitFor(said, { what: "the file is named" });
  expect(first).toContain(`goes on with the former SERVICE_TOKEN (${file} contains a blank`);
  expect(first).not.toContain(sandbox.token);
  const line = daemon.log.find((text) => text.includes('"secret.unusable"'));
  expect(JSON.parse(line ?? "")).toMatchObject({ variable: "SERVICE_TOKEN", file });
  await daemon.push([personEvent("1")]);
  await waitUntilSettled(daemon);
  // The commands on Redis work on, too, and those that need the token name its file.
  await write("");
  await waitFor(async () => (await status(env)).includes(`SERVICE_TOKEN (${file} is empty)`), {
    what: "the command shows it",
  });
  await using dead = localCrmsync(["dead", "list"], { env });
  expect(await dead.ended).toMatchObject({ code: 0 });
  await using doctor = localCrmsync(["doctor"], { env });
  expect(await doctor.ended).toMatchObject({ code: 78 });
  expect(doctor.stderr.join("\n")).toContain(`SERVICE_TOKEN_FILE names ${file}, which is empty`);
  await write(sandbox.token);
  await waitFor(async () => (await said()) === undefined, { what: "nothing is said any more" });
});

it("says at once that the audit trail cannot be written", async () => {
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const folder = join(dir.path, "there");
  await mkdir(folder);
  await using daemon = await localDaemon(envFor(sandbox, { AUDIT_LOG: join(folder, "audit.log") }));
  await daemon.push([personEvent("1")]);
  await waitUntilSettled(daemon);
  await rename(folder, `${folder}-no-more`);
  await daemon.push([personEvent("2")]);
  await waitFor(() => daemon.log.some((line) => line.includes('"audit.failed"')), {
    what: "the line of the second change cannot be written",
  });
  // Far sooner than the next heartbeat.
  await waitFor(async () => (await daemon.status()).sendingStopped.includes("audit_failed"), {
    what: "it says so",
  });
});

/** Root may read everything, unless it gives that up. */
const SETPRIV = { commands: ["setpriv"], check: ["--version"], debianPackage: "util-linux" };
const READS_ITS_OWN = "--bounding-set=-dac_override,-dac_read_search";

it("says of a DATA_DIR that is another user's who can run the command", async (context) => {
  await using dir = await tempDir();
  const env = { DATA_DIR: dir.path };
  const redis = join(dir.path, "redis");
  await mkdir(redis, { mode: 0o000 });
  const args = [join(import.meta.dirname, "../../src/cli/main.ts"), "status"];
  const isRoot = process.getuid?.() === 0;
  const [command, ...before] = isRoot
    ? [await requireTool(context, SETPRIV), READS_ITS_OWN, process.execPath]
    : [process.execPath];
  await using status = spawnCommand(command ?? "", [...before, ...args], { env });
  const { code } = await status.ended;
  await chmod(redis, 0o700);
  expect(code).toBe(1);
  expect(status.stderr).toEqual([
    `crmsync: DATA_DIR ${dir.path} cannot be read by this user (EACCES): run the command as the daemon's user, or set REDIS_URL to the Redis that it uses`,
  ]);
});

it("names a DATA_DIR that was removed while the daemon runs, which ends as always", async () => {
  await using dir = await tempDir();
  const dataDir = join(dir.path, "data");
  await using daemon = await startDaemon({ DATA_DIR: dataDir }, ["--sandbox"]);
  expect((await daemon.status()).redis.durable).toBe(true);
  await rm(dataDir, { recursive: true });
  const isNamed = async () => {
    const { redis, findings } = await daemon.status();
    const says = "Redis: its folder was removed: all that it holds ends with the daemon.";
    return !redis.durable && findings.some((finding) => finding.says === says);
  };
  await waitFor(isNamed, { what: "it is named" });
  expect(await daemon.metric("crmsync_redis_durable")).toBe(0);
  daemon.process.kill("SIGTERM");
  expect(await daemon.process.ended).toEqual({ code: 0, signal: null });
});
