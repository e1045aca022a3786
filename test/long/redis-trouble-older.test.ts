import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { waitUntilSettled } from "../support/crmsync.ts";
import {
  type LocalDaemon,
  type LocalSandbox,
  localDaemon,
  localSandbox,
} from "../support/in-process.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

const SECTION = "docs/runbook.md#the-ledger-and-the-service-disagree";

const says = async (daemon: LocalDaemon) =>
  (await daemon.status()).findings.find(({ runbook }) => runbook === SECTION)?.says;

const arrives = (sandbox: LocalSandbox, crmCode: string, firstName: string) =>
  waitFor(async () => (await sandbox.relations()).get(crmCode)?.["firstName"] === firstName, {
    what: `${crmCode} arrives as ${firstName}`,
  });

/** All of Redis, as a backup has it. */
async function copyOf(redis: Redis): Promise<[string, Buffer][]> {
  const copy: [string, Buffer][] = [];
  for (const key of await redis.keys("*")) {
    const value = await redis.dumpBuffer(key);
    if (value !== null) copy.push([key, value]);
  }
  return copy;
}

/** What a restored backup looks like to running processes: from one moment to the next. */
async function restore(redis: Redis, copy: readonly [string, Buffer][]): Promise<void> {
  const work = redis.multi().flushall();
  for (const [key, value] of copy) work.restore(key, 0, value);
  await work.exec();
}

async function crmsync(args: string[], env: Record<string, string>): Promise<string> {
  await using command = localCrmsync(args, { env });
  expect((await command.ended).code, command.stderr.join("\n")).toBe(0);
  return command.stdout.join("\n");
}

it("Redis restored from an older copy: a change back to the older value is sent", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envOn(redis, sandbox));
  await daemon.push([personEvent("1", { firstName: "Ada" })]);
  await waitUntilSettled(daemon);
  const copy = await copyOf(redis.client);
  await daemon.push([personEvent("1", { firstName: "Eda" })]);
  await arrives(sandbox, "1", "Eda");
  await waitUntilSettled(daemon);
  await restore(redis.client, copy);
  await waitFor(async () => /went back to an older state/.test((await says(daemon)) ?? ""), {
    what: "status tells it",
  });
  await daemon.push([personEvent("1", { firstName: "Ada" })]);
  await arrives(sandbox, "1", "Ada");
  await waitUntilSettled(daemon);
  // The order of events is kept, too: what is older than the copy knew stays superseded.
  await daemon.push([
    personEvent("1", { firstName: "Old" }, { time: new Date(Date.now() - 600_000).toISOString() }),
  ]);
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("1")?.["firstName"]).toBe("Ada");
  await waitFor(async () => (await daemon.status()).ledger.state === "done", { what: "warm" });
});

it("Redis emptied under a running daemon: it is told, and no older event comes after a newer state", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envOn(redis, sandbox));
  const at = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
  await daemon.push([personEvent("1", { firstName: "New" }, { time: at(10) })]);
  await arrives(sandbox, "1", "New");
  await waitUntilSettled(daemon);
  await redis.client.flushall();
  await waitFor(async () => /or was emptied/.test((await says(daemon)) ?? ""), {
    what: "status says that Redis was emptied",
  });
  await daemon.push([personEvent("1", { firstName: "Old" }, { time: at(60) })]);
  await daemon.push([personEvent("2", { firstName: "Other" })]);
  await arrives(sandbox, "2", "Other");
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("1")?.["firstName"]).toBe("New");
});

it("another service than before: what the ledger knows of the former one is not believed", async () => {
  await using redis = await ownRedis();
  await using former = await localSandbox();
  {
    await using daemon = await localDaemon(envOn(redis, former));
    await daemon.push([personEvent("1", { firstName: "Ada" })]);
    await arrives(former, "1", "Ada");
    await waitUntilSettled(daemon);
  }
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(envOn(redis, sandbox));
  await daemon.push([personEvent("1", { firstName: "Ada" })]);
  await arrives(sandbox, "1", "Ada");
});

it("a rolling restart to another service waits for the former processes, and loses no change", async () => {
  await using redis = await ownRedis();
  await using former = await localSandbox();
  await using sandbox = await localSandbox();
  const settings = { HTTP_PORT: "0", INGEST_AUTH: "none", LOG_LEVEL: "warn" };
  await using old = await localDaemon(envOn(redis, former));
  await old.push([personEvent("1", { firstName: "Ada" }), personEvent("2", { firstName: "Bea" })]);
  await arrives(former, "2", "Bea");
  await waitUntilSettled(old);
  await using next = spawnCrmsync(["start", "--json"], {
    env: { ...settings, ...envOn(redis, sandbox) },
  });
  await next.line(/service\.waits/);
  // Redis forgets all: whose ledger it is, is told by the one that sends.
  await redis.client.flushall();
  await old.line(/redis\.went_backwards/);
  const text = async () => (await old.status()).findings.map((one) => one.says).join("\n");
  await waitFor(async () => /different SERVICE_BASE_URL.*wait until/.test(await text()), {
    what: "status names the two services",
  });
  await old.push([personEvent("1", { firstName: "Eda" })]);
  await arrives(former, "1", "Eda");
  await waitUntilSettled(old);
  expect(await sandbox.requests()).toEqual({});

  await old[Symbol.asyncDispose]();
  const [started] = await next.line(/^\{.*"redisUrl".*\}$/);
  const { url } = JSON.parse(started) as { url: string };
  // Equal to what the former service has: only this one's own list may say that it is not needed.
  await fetch(`${url}/events`, {
    method: "POST",
    headers: { "content-type": "application/cloudevents-batch+json" },
    body: JSON.stringify([
      personEvent("1", { firstName: "Eda" }),
      personEvent("2", { firstName: "Bea" }),
    ]),
  });
  await arrives(sandbox, "1", "Eda");
  await arrives(sandbox, "2", "Bea");
});

it("a service that was reset under a running daemon is found, and ledger forget heals it", async () => {
  await using dir = await tempDir();
  await using redis = await ownRedis();
  const db = `${dir.path}/sandbox.db`;
  await using sandbox = await localSandbox({ db });
  const env = envOn(redis, sandbox);
  await using daemon = await localDaemon(env);
  const people = (firstName: string) =>
    ["1", "2", "3"].map((crmCode) => personEvent(crmCode, { firstName }));
  await daemon.push(people("Ada"));
  await waitUntilSettled(daemon);
  await crmsync(["sandbox", "reset", "--db", db], {});
  expect((await sandbox.relations()).size).toBe(0);

  // One changed record tells it; the unchanged ones would never be sent again.
  await daemon.push([personEvent("1", { firstName: "Eda" })]);
  await arrives(sandbox, "1", "Eda");
  await waitFor(
    async () => /no longer on the service.*ledger forget --apply/.test((await says(daemon)) ?? ""),
    {
      what: "status tells it",
    },
  );
  expect(await crmsync(["ledger", "forget"], env)).toMatch(/would forget all 3 rows/);
  expect(JSON.parse(await crmsync(["ledger", "forget", "--json"], env))).toEqual({
    chosen: 3,
    applied: false,
    forgotten: 0,
  });
  expect(JSON.parse(await crmsync(["ledger", "stats", "--json"], env))).toMatchObject({
    state: "done",
    rows: 3,
    exist: 3,
  });
  expect(await crmsync(["ledger", "forget", "--apply"], env)).toMatch(/forgot all 3 rows/);
  await waitFor(async () => (await daemon.status()).ledger.state === "done", { what: "warm" });
  await daemon.push(people("Ada"));
  await arrives(sandbox, "1", "Ada");
  await arrives(sandbox, "3", "Ada");
  await waitUntilSettled(daemon);
  expect((await sandbox.requests())["create 409"] ?? 0).toBe(0);
});
