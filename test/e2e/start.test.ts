/** `crmsync start` as a person sees it: on a terminal, with ports in use, with a Redis to join. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readRelations } from "../../src/demo/service-reader.ts";
import { startDaemon } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { Visitor } from "../support/console.ts";
import { spawnCommand, spawnCrmsync, spawnNode } from "../support/process.ts";
import { requireTool } from "../support/requirements.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";

const ROOT = join(import.meta.dirname, "../..");
const MAIN = join(ROOT, "src/cli/main.ts");

/** Runs a command on a terminal of its own. */
const SCRIPT = { commands: ["script"], check: ["--version"], debianPackage: "bsdutils" };

async function portInUse() {
  // A client of a server that had this port before may still try to reach it.
  const server = createServer((socket) => socket.destroy());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port: String(port),
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}

async function startFailing(env: Record<string, string>) {
  await using dir = await tempDir();
  await using daemon = spawnCrmsync(["start", "--sandbox"], {
    env: { DATA_DIR: dir.path, HTTP_PORT: "0", SANDBOX_PORT: "0", ...env },
  });
  const { code } = await daemon.ended;
  const logged = daemon.stderr
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as { event: string; server_pid?: number });
  return {
    code,
    events: logged.map(({ event }) => event),
    redisPid: logged.find(({ event }) => event === "redis.started")?.server_pid ?? 0,
    said: withoutLog(daemon),
  };
}

const withoutLog = ({ stderr }: { readonly stderr: readonly string[] }) =>
  stderr.filter((line) => !line.startsWith("{"));

test("on a terminal it tells people where everything is, and a foreign producer can join its Redis", async (context) => {
  const script = await requireTool(context, SCRIPT);
  await using dir = await tempDir();
  const env = { DATA_DIR: dir.path, HTTP_PORT: "0", SANDBOX_PORT: "0", INGEST_AUTH: "none" };
  const command = `exec '${process.execPath}' '${MAIN}' start --sandbox`;
  await using terminal = spawnCommand(script, ["-qefc", command, "/dev/null"], {
    env: { ...env, NO_COLOR: "1", TERM: "xterm" },
  });
  const seen = (name: string) => terminal.line(new RegExp(`^  ${name} +(\\S+)`));
  const [, events = ""] = await seen("events");
  const [, metrics = ""] = await seen("metrics");
  const [, page = ""] = await seen("sandbox");
  const [, shown = ""] = await seen("Redis");
  await terminal.line(/^crmsync \S+ is up\. Ctrl-C ends it\./);
  await terminal.line(/^\[\d\d:\d\d:\d\d\] INFO: The process is up\. \{"event":"daemon\.started"/);
  expect(terminal.stdout.join("\n")).not.toContain('"msg"');
  const [, consoleUrl = ""] = await seen("console");
  const [, token = ""] = await seen("token");
  expect((await fetch(metrics)).status).toBe(200);
  const visitor = new Visitor(new URL(consoleUrl).origin);
  expect(await visitor.logIn(token)).toMatchObject({ status: 303 });
  expect(await visitor.request("/console")).toMatchObject({ status: 200 });
  expect((await fetch(page)).status).toBe(200);
  expect((await fetch(events, { method: "POST" })).status).toBe(400);

  await using printed = spawnCrmsync(["redis-url"], { env });
  expect(await printed.ended).toMatchObject({ code: 0 });
  const [redisUrl = ""] = printed.stdout;
  // The terminal shows where Redis is, without its password.
  const { password, host } = new URL(redisUrl);
  expect(password).not.toBe("");
  expect(shown).toContain(host);
  expect(`${terminal.stdout.join("\n")}${terminal.stderr.join("\n")}`).not.toContain(password);
  await using producer = spawnNode([join(ROOT, "examples/push-with-bullmq.mjs"), "p1"], {
    env: { REDIS_URL: redisUrl },
  });
  expect(await producer.ended).toMatchObject({ code: 0 });
  const { origin, hash } = new URL(page);
  const service = { url: origin, token: hash.replace("#token=", "") };
  const codes = async () =>
    (await readRelations(service, AbortSignal.timeout(5000))).map(({ crmCode }) => crmCode);
  await waitFor(async () => (await codes()).includes("p1"), { what: "the producer's record" });
});

test("a port in use is named with its variable, and neither another port nor the service is used", async () => {
  await using taken = await portInUse();
  const [daemon, sandbox] = await Promise.all([
    startFailing({ HTTP_PORT: taken.port }),
    startFailing({ SANDBOX_PORT: taken.port, LOG_FORMAT: "text" }),
  ]);
  expect(daemon.code).toBe(1);
  expect(daemon.said).toEqual([
    `crmsync: port ${taken.port} is in use on 127.0.0.1: set HTTP_PORT to another one, or end the program that uses it`,
  ]);
  expect(daemon.events).toEqual(["daemon.starting", "redis.started", "sandbox.started"]);
  expect(() => process.kill(daemon.redisPid, 0)).toThrow("ESRCH");

  expect(sandbox.code).toBe(1);
  expect(sandbox.said[0]).toMatch(
    /\] INFO: The process starts\. \{"event":"daemon\.starting","version":/,
  );
  expect(sandbox.said.slice(-1)).toEqual([
    `crmsync: port ${taken.port} is in use on 127.0.0.1: set SANDBOX_PORT to another one, or end the program that uses it`,
  ]);
});

test("a start that cannot write to its disk, or use a file in DATA_DIR, says so in one line", async () => {
  await using dir = await tempDir();
  const env = { DATA_DIR: dir.path, HTTP_PORT: "0", SANDBOX_PORT: "0" };
  // The limit stands for a full disk.
  const shell = ["-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath, MAIN, "start", "--sandbox"];
  await using limited = spawnCommand("sh", shell, { env });
  expect((await limited.ended).code).toBe(1);
  expect(withoutLog(limited)).toEqual([
    expect.stringMatching(/^crmsync: DATA_DIR .* cannot be used \(.*on a disk that is not full$/),
  ]);

  await writeFile(join(dir.path, "sandbox.db"), "the file of another program");
  await using foreign = spawnCrmsync(["start", "--sandbox"], { env });
  expect((await foreign.ended).code).toBe(1);
  expect(withoutLog(foreign)).toEqual([
    expect.stringMatching(/^crmsync: .*sandbox\.db cannot be used as a sandbox database: /),
  ]);
});

test("the embedded service is reached on a machine whose other requests need a proxy", async () => {
  await using dir = await tempDir();
  const env = { DATA_DIR: dir.path, HTTP_PROXY: "http://nothing.invalid:3128" };
  await using daemon = await startDaemon(env, ["--sandbox"]);
  await daemon.push([personEvent("1")]);
  const created = () => daemon.metric("crmsync_changes_total", { outcome: "created" });
  await waitFor(async () => (await created()) === 1, { what: "the change is sent" });
});

test("events need credentials beyond loopback, unless that is said in as many words", async () => {
  const open = { HTTP_HOST: "0.0.0.0", INGEST_AUTH: "none" };
  const refused = await startFailing(open);
  expect(refused.code).toBe(78);
  expect(refused.said.join("\n")).toMatch(
    /INGEST_AUTH is none and HTTP_HOST is 0\.0\.0\.0.*set INGEST_TOKEN_FILE.*INGEST_AUTH=none-from-anywhere/,
  );
  expect(refused.events).toEqual([]);

  await using taken = await portInUse();
  const said = { ...open, INGEST_AUTH: "none-from-anywhere", OPS_PORT: taken.port };
  const daemon = await startFailing({ ...said, OPS_HOST: "127.0.0.1" });
  expect(daemon.said).toEqual([
    `crmsync: port ${taken.port} is in use on 127.0.0.1: set OPS_PORT to another one, or end the program that uses it`,
  ]);
});

test("a host that cannot be looked up is named with its variable", async () => {
  const host = "nothing.invalid";
  const why = "(a name without an address|and no name server answers for it: correct it, .*)";
  const [http, ops] = await Promise.all([
    startFailing({ HTTP_HOST: host }),
    startFailing({ OPS_HOST: host, OPS_PORT: "1" }),
  ]);
  expect(http.said.at(-1)).toMatch(new RegExp(`HTTP_HOST is ${host}, ${why}$`));
  expect(ops.said.at(-1)).toMatch(new RegExp(`OPS_HOST is ${host}, ${why}$`));
});

test("everything that is missing or wrong is said at once", async () => {
  const env = {
    RECONCILE_FROM: "salesfarce",
    RECONCILE_CRON: "0 3 * * *",
    INGEST_AUTH: "none",
    HTTP_HOST: "0.0.0.0",
    AUDIT_LOG: "stdout",
  };
  await using refused = spawnCrmsync(["start", "--json"], { env });
  expect(await refused.ended).toMatchObject({ code: 78 });
  expect(refused.stderr.slice(0, 6).map((line) => line.slice(0, 32))).toEqual([
    "crmsync: the configuration has p",
    "  - SERVICE_BASE_URL is missing:",
    "  - SERVICE_TOKEN or SERVICE_TOK",
    "  - AUDIT_LOG=stdout needs stdou",
    "  - RECONCILE_FROM: salesfarce c",
    "  - INGEST_AUTH is none and HTTP",
  ]);
});

test("a wrong variable is said together with what is missing, and neither twice", async () => {
  const saidOf = async (env: Record<string, string>) => {
    await using refused = spawnCrmsync(["start"], { env });
    expect(await refused.ended).toMatchObject({ code: 78 });
    return refused.stderr.slice(1).map((line) => line.slice(4, 32));
  };
  const open = { INGEST_AUTH: "none", HTTP_HOST: "0.0.0.0" };
  expect(await saidOf({ ...open, HTTP_PORT: "abc", SERVICE_TOKEN_ISSUED_AT: "soon" })).toEqual([
    "SERVICE_TOKEN_ISSUED_AT must",
    "HTTP_PORT must be a whole nu",
    "SERVICE_BASE_URL is missing:",
    "SERVICE_TOKEN or SERVICE_TOK",
    "INGEST_AUTH is none and HTTP",
  ]);
  expect(await saidOf({ SERVICE_BASEURL: "https://x.example", SERVICE_TOKEN: "t" })).toEqual([
    "SERVICE_BASE_URL is missing:",
    "SERVICE_BASEURL is set, and ",
  ]);
  const wrong = { SERVICE_BASE_URL: "ftp://x", SERVICE_TOKEN_FILE: "/nowhere" };
  expect(await saidOf(wrong)).toEqual([
    "SERVICE_BASE_URL must be an ",
    "SERVICE_TOKEN_FILE names /no",
  ]);
});
