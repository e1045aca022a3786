/** Redis as a careful operator runs it: TLS with client certificates, and a user with few rights. */
import { randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ownPort } from "../support/own-port.ts";
import { makeCertificates } from "../support/certificates.ts";
import { startDaemon, startSandbox, waitUntilSettled } from "../support/crmsync.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { requireTool } from "../support/requirements.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";

const RULES = join(import.meta.dirname, "../../deploy/redis/acl-rules.txt");
const PASSWORD = "p/a%s#s@word";
const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };

it("over TLS, with the rights of deploy/redis/acl-rules.txt, everything works", async (context) => {
  const openssl = await requireTool(context, OPENSSL);
  await using dir = await tempDir();
  const { ca, server, client } = makeCertificates(openssl, dir.path);
  const port = await ownPort();
  await using redis = await ownRedis({
    "tls-port": String(port),
    "tls-ca-cert-file": ca,
    "tls-cert-file": server.cert,
    "tls-key-file": server.key,
  });
  const rules = readFileSync(RULES, "utf8").trim().split(" ");
  await redis.client.acl("SETUSER", "crmsync", "on", `>${PASSWORD}`, ...rules);
  await redis.client.acl("SETUSER", "default", "off");
  const urlFile = join(dir.path, "redis-url");
  writeFileSync(urlFile, `rediss://crmsync:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}\n`);
  const tls = { REDIS_CA_FILE: ca, REDIS_CERT_FILE: client.cert, REDIS_KEY_FILE: client.key };

  await using sandbox = await startSandbox();
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)].map((key) => key.toString("base64"));
  const env = {
    ...tls,
    REDIS_URL_FILE: urlFile,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    STATE_KEY: oldKey ?? "",
    RETRY_BASE_MS: "10",
    QUOTA_PER_HOUR: "100000",
    QUOTA_BURST: "1000",
    QUOTA_BURST_MS: "100",
    DATA_DIR: dir.path,
  };
  const outputs: string[] = [];
  const crmsync = async (...args: string[]) => {
    const { stdout, stderr, ended } = localCrmsync(args, { env });
    const { code } = await ended;
    outputs.push(...stdout, ...stderr);
    return { code, text: [...stdout, ...stderr].join("\n") };
  };

  {
    await using daemon = await startDaemon(env);
    const bad = personEvent("bad", { lastName: "" });
    await fail(sandbox.faultsUrl, { fault: "error", status: 503, times: 1, method: "POST" });
    expect((await daemon.push([personEvent("1"), personEvent("2"), bad])).status).toBe(202);
    const file = join(dir.path, "events.ndjson");
    writeFileSync(
      file,
      [personEvent("3"), personEvent("worse", { lastName: "" })]
        .map((event) => `${JSON.stringify(event)}\n`)
        .join(""),
    );
    expect(await crmsync("push", file)).toMatchObject({ code: 0 });
    await waitUntilSettled(daemon);
    await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
      what: "two dead letters",
    });
    expect([...(await sandbox.relations()).keys()].toSorted()).toEqual(["1", "2", "3"]);
    expect(JSON.parse((await crmsync("status", "--json")).text)).toMatchObject({
      deadLetters: { total: 2 },
    });
    expect((await crmsync("ledger", "stats")).code).toBe(0);
    expect((await crmsync("ledger", "forget", "3", "--apply")).code).toBe(0);
    expect((await crmsync("dead", "redrive", "--all", "--apply")).text).toContain("2 redriven");
    outputs.push(...daemon.process.stdout, ...daemon.process.stderr);
  }
  // The state is taken over and sealed with a new key.
  env.STATE_KEY = `${newKey} ${oldKey}`;
  await using daemon = await startDaemon({ ...env, LOG_LEVEL: "debug" });
  await daemon.push([personEvent("1", { firstName: "Eda" })]);
  await waitUntilSettled(daemon);
  await waitFor(async () => (await daemon.metric("crmsync_dead_letters")) === 2, {
    what: "the letters are back",
  });
  expect((await crmsync("dead", "list")).text).toContain("lastName");
  expect((await crmsync("dead", "drop", "--all", "--apply")).code).toBe(0);
  const doctor = await crmsync("doctor");
  expect(doctor.text).not.toMatch(/^\s*FAIL/m);
  outputs.push(...daemon.process.stdout, ...daemon.process.stderr);
  // The doctor asks, and does without: SCAN would show the keys of other tenants, CONFIG GET passwords.
  const denied = (await redis.client.acl("LOG")) as unknown[][];
  expect(denied.map((entry) => entry[entry.indexOf("object") + 1])).toEqual(["scan", "config|get"]);
  const printed = outputs.join("\n");
  expect(printed).not.toContain(PASSWORD);
  expect(printed).not.toContain(encodeURIComponent(PASSWORD));
});

async function fail(faultsUrl: string, fault: Record<string, unknown>): Promise<void> {
  await fetch(`${faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fault),
  });
}

it("crmsync redis names the rights that it lacks, and marks no Redis that it could not copy", async () => {
  await using dir = await tempDir();
  await using redis = await ownRedis();
  const rules = readFileSync(RULES, "utf8").trim().split(" ");
  await redis.client.acl("SETUSER", "crmsync", "on", ">password", ...rules);
  const url = redis.url.replace("redis://", "redis://crmsync:password@");
  const env = { REDIS_URL: url, DATA_DIR: dir.path };
  await redis.client.hset("{crmsync}:state-version", "version", "2");
  const copy = join(dir.path, "copy");
  const crmsync = async (...args: string[]) => {
    await using process = localCrmsync(["redis", ...args], { env });
    const { code } = await process.ended;
    return { code, text: [...process.stdout, ...process.stderr].join("\n") };
  };
  const refused = await crmsync("backup", copy, "--move", "--apply");
  expect(refused.code).toBe(1);
  const [, missing = ""] =
    /^crmsync: Redis does not let this user run scan: allow it \(ACL SETUSER NAME (.*?)\)/.exec(
      refused.text,
    ) ?? [];
  expect(await redis.client.hgetall("{crmsync}:state-version")).toEqual({ version: "2" });

  await redis.client.acl("SETUSER", "crmsync", ...missing.split(" "));
  expect(await crmsync("backup", copy)).toMatchObject({ code: 0 });
  expect(await crmsync("reset", "--all", "--apply")).toMatchObject({ code: 0 });
  expect(await crmsync("restore", copy, "--apply")).toMatchObject({ code: 0 });
  expect(await redis.client.hgetall("{crmsync}:state-version")).toEqual({ version: "2" });
});
