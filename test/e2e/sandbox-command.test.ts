import { once } from "node:events";
import { readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { armFault } from "../support/arm-fault.ts";
import { startSandbox } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCommand, spawnCrmsync } from "../support/process.ts";
import { temporaryFile } from "../support/temporary-file.ts";

const PATH = "/v1.1/business-relations";
const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");

/** Runs `crmsync sandbox …` until it exits. */
async function sandboxCommand(args: string[], input = "") {
  await using command = localCrmsync(["sandbox", ...args], { input });
  const { code } = await command.ended;
  return { code, stdout: command.stdout, stderr: command.stderr };
}

async function json(args: string[], input = ""): Promise<unknown> {
  const { code, stdout, stderr } = await sandboxCommand([...args, "--json"], input);
  expect({ code, stderr }).toEqual({ code: 0, stderr: [] });
  return JSON.parse(stdout.join("\n"));
}

const statusOf = async (url: string, token: string): Promise<number> =>
  (await fetch(`${url}${PATH}`, { headers: { authorization: `Bearer ${token}` } })).status;

test("an operator creates a client, rotates its token and removes its address while it serves", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using sandbox = await startSandbox({ db: file.path });
  const acme = ["--tenant", "acme", "--db", file.path];
  await json(["tenant", "create", "acme", "--per-hour", "5", "--db", file.path]);
  const first = (await json(["token", "create", "old", ...acme])) as { id: string; token: string };
  expect(await statusOf(sandbox.url, first.token)).toBe(403);
  expect(await json(["allow", "add", "127.0.0.1", "2001:db8::/32", ...acme])).toEqual([
    "127.0.0.1",
    "2001:db8::/32",
  ]);
  expect(await statusOf(sandbox.url, first.token)).toBe(200);
  const second = (await json(["token", "create", "new", ...acme])) as { token: string };
  await json(["token", "revoke", first.id, ...acme]);
  expect(await statusOf(sandbox.url, first.token)).toBe(401);
  expect(await statusOf(sandbox.url, second.token)).toBe(200);
  expect(await json(["token", "list", ...acme])).toMatchObject([
    { id: first.id, label: "old", revokedAt: expect.any(String) as string },
    { label: "new", revokedAt: null },
  ]);
  expect(await json(["allow", "remove", "127.0.0.1", ...acme])).toEqual(["2001:db8::/32"]);
  expect(await statusOf(sandbox.url, second.token)).toBe(403);
  expect(await json(["tenant", "list", "--db", file.path])).toMatchObject([
    { name: "acme", environment: "test", perHour: 5, activeTokens: 1 },
    { name: "default", environment: "test", perHour: null, activeTokens: 1 },
  ]);
  // A limit that is not given stays.
  await json(["tenant", "limits", "acme", "--burst", "2", "--db", file.path]);
  expect(await json(["tenant", "list", "--db", file.path])).toMatchObject([
    { name: "acme", perHour: 5, burst: 2 },
    { name: "default" },
  ]);
  await json(["tenant", "remove", "acme", "--db", file.path]);
  expect(await statusOf(sandbox.url, second.token)).toBe(401);
});

test("import names a folder and a file that is not UTF-8, and accepts a byte order mark", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using _sandbox = await localSandbox({ db: file.path });
  const imported = async (input: string) => sandboxCommand(["import", input, "--db", file.path]);
  expect((await imported(dirname(file.path))).stderr.join()).toMatch(/ is a folder: name a file$/);
  const text = join(dirname(file.path), "relations.ndjson");
  const relation = `{"type":"Fund","crmCode":"f","name":"F"}\n`;
  await writeFile(text, relation, "utf16le");
  expect((await imported(text)).stderr.join()).toMatch(/ is not UTF-8, but probably UTF-16/);
  await writeFile(text, `\ufeff${relation}`);
  expect(await imported(text)).toMatchObject({ code: 0, stderr: [] });
});

test("relations are exported and imported as NDJSON; invalid lines are reported by number", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using _sandbox = await localSandbox({ db: file.path });
  const db = ["--db", file.path];
  const good = { type: "Fund", crmCode: "f", name: "F", relationStatus: "terminated" };
  const lines = [good, { ...good, crmCode: "g" }, { ...good, type: "Robot" }, good];
  const input = `${lines.map((line) => JSON.stringify(line)).join("\n")}\n{broken\n`;
  const result = await sandboxCommand(["import", "-", ...db], input);
  expect(result.code).toBe(1);
  expect(result.stdout).toEqual(["2 created, 1 updated, 2 invalid"]);
  expect(result.stderr).toEqual([
    expect.stringMatching(/^line 3: type must be one of/) as string,
    expect.stringMatching(/^line 5: the line is not valid JSON$/) as string,
  ]);
  const hostile = JSON.stringify({ ...good, "\u009b2J\u202e": "x" });
  const shown = await sandboxCommand(["import", "-", "--json", ...db], hostile);
  expect([...shown.stdout, ...shown.stderr].join()).toContain(String.raw`\u009b2J\u202e`);
  expect([...shown.stdout, ...shown.stderr].join()).not.toMatch(/[\u009b\u202e]/);
  const target = join(dirname(file.path), "out.ndjson");
  await sandboxCommand(["export", target, ...db]);
  const exported = await readFile(target, "utf8");
  expect(
    exported
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual([
    { ...good, relationshipStatus: "Client", amlFrequency: "ongoing" },
    { ...good, crmCode: "g", relationshipStatus: "Client", amlFrequency: "ongoing" },
  ]);
  const overDatabase = await sandboxCommand(["export", file.path, ...db]);
  expect(overDatabase).toMatchObject({ code: 2, stdout: [] });
  expect(overDatabase.stderr.join()).toContain("is the database: the export would overwrite it");
  expect(await sandboxCommand(["export", "/dev/full", ...db])).toEqual({
    code: 1,
    stdout: [],
    stderr: ["crmsync: the export to /dev/full failed (ENOSPC); an older file is as it was"],
  });
  expect(await sandboxCommand(["export", "-", ...db])).toMatchObject({
    code: 0,
    stdout: exported.trim().split("\n"),
    stderr: [],
  });
  expect(await json(["reset", ...db])).toMatchObject({ removed: 2 });
  expect((await sandboxCommand(["import", target, ...db])).stdout).toEqual([
    "2 created, 0 updated, 0 invalid",
  ]);
});

test("ports in use are named with their options", async () => {
  await using file = await temporaryFile("sandbox.db");
  const db = ["--db", file.path];
  const server = createServer();
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const inUse = `crmsync: port ${port} is in use on 127.0.0.1: set`;
  const end = "to another one, or end the program that uses it";
  const taken = String(port);
  expect(await sandboxCommand(["--port", taken, ...db])).toMatchObject({
    code: 1,
    stderr: [`${inUse} --port ${end}`],
  });
  const faults = ["--port", "0", "--faults", "--faults-port", taken, ...db];
  expect(await sandboxCommand(faults)).toMatchObject({
    code: 1,
    stderr: [`${inUse} --faults-port ${end}`],
  });
  server.close();
});

test("a database that cannot be there is named with the reason", async () => {
  await using file = await temporaryFile("file");
  await writeFile(file.path, "");
  const db = join(file.path, "sandbox.db");
  expect(await sandboxCommand(["token", "list", "--db", db])).toMatchObject({
    code: 1,
    stderr: [`crmsync: there is no sandbox database at ${db}`],
  });
  const loop = join(dirname(file.path), "loop");
  await symlink(loop, loop);
  for (const command of [
    ["--port", "0", "--db", db],
    ["token", "list", "--db", join(loop, "x")],
  ]) {
    expect(await sandboxCommand(command)).toMatchObject({
      code: 1,
      stderr: [expect.stringMatching(/ cannot be used as a sandbox database: E\w+: /) as string],
    });
  }
});

test("an import into a file that cannot grow is one line, and can be repeated", async () => {
  await using file = await temporaryFile("sandbox.db");
  await (await localSandbox({ db: file.path }))[Symbol.asyncDispose]();
  const lines = Array.from({ length: 1000 }, (_, n) =>
    JSON.stringify({ type: "Fund", crmCode: `f${n}`, name: "F".repeat(1000) }),
  );
  const input = join(dirname(file.path), "relations.ndjson");
  await writeFile(input, lines.join("\n"));
  const args = ["sandbox", "import", input, "--db", file.path];
  // The limit stands for a full disk; a block has 512 or 1024 bytes.
  const shell = ["-c", 'ulimit -f 400; exec "$0" "$@"', process.execPath, MAIN, ...args];
  await using limited = spawnCommand("sh", shell);
  expect(await limited.ended).toEqual({ code: 1, signal: null });
  expect(limited.stderr).toEqual([
    expect.stringMatching(/^crmsync: the database file cannot be used further: /) as string,
  ]);
  await using again = localCrmsync(args);
  expect(await again.ended).toEqual({ code: 0, signal: null });
  expect(again.stdout.join()).toMatch(/ 0 invalid$/);
});

test("a client's own value lists come from a file", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using _sandbox = await localSandbox({ db: file.path });
  const values = join(dirname(file.path), "values.json");
  await writeFile(values, JSON.stringify({ branch: ["vienna"], industrySector: ["x"] }));
  const config = await json(["values", "set", values, "--db", file.path]);
  await writeFile(values, JSON.stringify({ branch: ["zürich"] }), "latin1");
  const latin1 = await sandboxCommand(["values", "set", values, "--db", file.path]);
  expect(latin1.stderr.join()).toContain("line 1 is not UTF-8: save the file as UTF-8");
  await writeFile(values, `\ufeff${JSON.stringify({ branch: ["vienna"] })}`);
  expect(await json(["values", "set", values, "--db", file.path])).toEqual(config);
  expect(config).toMatchObject({ fields: { branch: { values: ["vienna"], multiSelect: true } } });
  for (const [given, says] of [
    [{ maritalStatus: ["x"] }, "maritalStatus has no list of its own"],
    [{ branch: [] }, "branch: values must not be empty"],
  ] as const) {
    await writeFile(values, JSON.stringify(given));
    const invalid = await sandboxCommand(["values", "set", values, "--db", file.path]);
    expect(invalid.code).toBe(1);
    expect(invalid.stderr.join()).toContain(says);
  }
  expect(await json(["values", "show", "--db", file.path])).toEqual(config);
});

test.each([
  ["no database", ["token", "list", "--db", "/nonexistent/x.db"], "there is no sandbox database"],
  ["no such tenant", ["token", "list", "--tenant", "nobody"], "no tenant nobody"],
  ["no address", ["allow", "add", "localhost"], "is not an IPv4 or IPv6 address"],
  ["no token", ["token", "revoke", "x"], "no active token x"],
])("%s is reported in one line, with exit code 1", async (_name, args, message) => {
  await using file = await temporaryFile("sandbox.db");
  await json(["tenant", "create", "default", "--db", file.path]);
  const db = args.includes("--db") ? [] : ["--db", file.path];
  const { code, stdout, stderr } = await sandboxCommand([...args, ...db]);
  expect({ code, stdout, lines: stderr.length }).toEqual({ code: 1, stdout: [], lines: 1 });
  expect(stderr[0]).toContain(message);
});

test("SIGTERM ends it, and --token-file keeps the token", async () => {
  await using file = await temporaryFile("sandbox.db");
  const tokenFile = `${file.path}.token`;
  const options = { db: file.path, flags: ["--token-file", tokenFile] };
  await writeFile(tokenFile, "revoked", { mode: 0o644 });
  await using first = await startSandbox(options);
  expect(await statusOf(first.url, first.token)).toBe(200);
  first.process.kill("SIGTERM");
  expect(await first.process.ended).toEqual({ code: 0, signal: null });
  await using second = await startSandbox(options);
  expect(second.token).toBe(first.token);
  expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
  expect(await statusOf(second.url, second.token)).toBe(200);
});

test("a start that fails leaves no token that nobody has seen", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using other = await localSandbox();
  const db = ["--db", file.path];
  const taken = ["--port", new URL(other.url).port];
  expect((await sandboxCommand([...taken, ...db])).stderr.join()).toContain("is in use on");
  const nowhere = ["--port", "0", "--token-file", join(file.path, "x")];
  expect((await sandboxCommand([...nowhere, ...db])).stderr.join()).toContain("ENOTDIR");
  await using first = await localSandbox({ db: file.path });
  expect(await statusOf(first.url, first.token)).toBe(200);
  expect(await json(["token", "list", ...db])).toHaveLength(1);
  await using second = spawnCrmsync(["sandbox", "--port", "0", ...db]);
  const [, hint = ""] = await second.line(/^token .*: npm run crmsync -- sandbox (.*)$/);
  expect(await json(hint.split(" "))).toMatchObject({ token: expect.any(String) as string });
});

test("SIGTERM ends it within seconds, also while a fault delays a request by an hour", async () => {
  await using sandbox = await startSandbox();
  await armFault(sandbox, { fault: "latency", ms: 3_600_000, times: 1 });
  const cut = expect(statusOf(sandbox.url, sandbox.token)).rejects.toThrow("fetch failed");
  const struck = async () => (await fetch(`${sandbox.faultsUrl}/faults`)).text();
  await expect.poll(struck).toContain('"struck":1');
  sandbox.process.kill("SIGTERM");
  expect(await sandbox.process.ended).toEqual({ code: 0, signal: null });
  await cut;
});

test("4,000 requests over 40 connections succeed", async () => {
  await using file = await temporaryFile("sandbox.db");
  await using sandbox = await startSandbox({ db: file.path });
  const headers = {
    authorization: `Bearer ${sandbox.token}`,
    "content-type": "application/json",
  };
  const statuses = new Map<number, number>();
  let next = 0;
  const work = async (): Promise<void> => {
    for (let i = next++; i < 4000; i = next++) {
      const crmCode = `c-${Math.floor(i / 4)}`;
      const body = JSON.stringify({ type: "Company", crmCode, name: String(i) });
      const post = i % 4 === 0;
      const response = await fetch(`${sandbox.url}${PATH}${post ? "" : "/schema-config"}`, {
        headers,
        ...(post && { method: "POST", body }),
      });
      await response.text();
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: 40 }, work));
  expect(Object.fromEntries(statuses)).toEqual({ 200: 3000, 201: 1000 });
});
