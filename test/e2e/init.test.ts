import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { localSandbox } from "../support/in-process.ts";
import { startDaemon } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCommand, spawnCrmsync } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { waitFor } from "../support/wait-for.ts";

const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");

async function init(folder: string, ...options: string[]) {
  await using process = localCrmsync(["init", folder, ...options]);
  const { code } = await process.ended;
  return { code, out: process.stdout.join("\n"), err: process.stderr.join("\n") };
}

/** The variables as a shell loads them from the file. */
async function loaded(env: string): Promise<Record<string, string>> {
  await using shell = spawnCommand("env", ["-i", "sh", "-c", `set -a; . '${env}'; exec env`]);
  await shell.ended;
  const entries = shell.stdout.map((line) => line.split(/=(.*)/s).slice(0, 2));
  return Object.fromEntries(entries) as Record<string, string>;
}

const SECRETS = ["ingest_token", "viewer_token", "operator_token", "state_key"];

test("init, the service's token and a start make a daemon that accepts events and sends them", async () => {
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const folder = join(dir.path, "an installation");
  const made = await init(folder, "--service", sandbox.url, "--mapping", "generic");
  expect(made).toMatchObject({ code: 0, err: "" });
  const secret = (name: string) => join(folder, "secrets", name);
  expect(made.out).toContain(`write the token of the service into ${secret("service_token")}`);
  for (const name of [...SECRETS, "service_token"]) {
    expect((await stat(secret(name))).mode & 0o777).toBe(0o600);
  }
  const { PATH: _path, PWD: _pwd, MAPPING, ...variables } = await loaded(join(folder, "env"));
  expect(MAPPING).toBe(join(folder, "mapping.yaml"));
  expect(await readFile(MAPPING ?? "", "utf8")).toContain("crmCode");

  // Without the token nothing starts: the message names its file.
  await using tooEarly = spawnCrmsync(["start"], { env: variables });
  expect(await tooEarly.ended).toMatchObject({ code: 78 });
  expect(tooEarly.stderr.join("\n")).toContain(`${secret("service_token")}, which is empty`);

  await writeFile(secret("service_token"), sandbox.token);
  await using daemon = await startDaemon({ ...variables, HTTP_PORT: "0", INGEST_AUTH: "" });
  const event = personEvent("4711");
  const post = (token: string) =>
    fetch(`${daemon.url}/events`, {
      method: "POST",
      headers: {
        "content-type": "application/cloudevents+json",
        authorization: `Bearer ${token}`,
      },
      body: JSON.stringify(event),
    });
  expect((await post("x".repeat(64))).status).toBe(401);
  expect((await post(await readFile(secret("ingest_token"), "utf8"))).status).toBe(202);
  await waitFor(async () => (await sandbox.relations()).has("4711"), { what: "it arrives" });
});

test("init changes nothing that is there, and completes what an interrupted call has left", async () => {
  await using dir = await tempDir();
  const folder = join(dir.path, "crmsync");
  // The limit stands for a disk that is full after the first empty file.
  const shell = ["-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath, MAIN];
  await using full = spawnCommand("sh", [...shell, "init", folder]);
  expect(await full.ended).toEqual({ code: 1, signal: null });
  expect(full.stderr.join()).toMatch(/^crmsync: \S+ cannot be written \(EFBIG\)$/);

  expect(await init(folder)).toMatchObject({ code: 0 });
  const key = join(folder, "secrets/state_key");
  const before = await readFile(key, "utf8");
  expect(Buffer.from(before, "base64")).toHaveLength(32);
  const again = await init(folder, "--service", "http://127.0.0.1:1");
  expect(again).toMatchObject({ code: 1, out: "" });
  expect(again.err).toContain("env already exists, and nothing was changed");
  await using remove = spawnCommand("rm", [join(folder, "env")]);
  await remove.ended;
  const completed = await init(folder, "--json");
  expect(JSON.parse(completed.out)).toMatchObject({
    folder,
    written: [join(folder, "env")],
    kept: expect.arrayContaining([key]) as string[],
  });
  expect(await readFile(key, "utf8")).toBe(before);
});

test("init takes a mapping file that is there, and names the command of a checkout", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "own mapping.mts");
  await writeFile(file, "");
  const folder = join(dir.path, "crmsync");
  await using command = spawnCrmsync(["init", folder, "--mapping", file]);
  expect((await command.ended).code).toBe(0);
  expect((await loaded(join(folder, "env")))["MAPPING"]).toBe(file);
  await expect(stat(join(folder, "mapping.yaml"))).rejects.toThrow("ENOENT");
  expect(command.stdout).toContain(
    `  adapt the mapping file, then: npm run crmsync -- mapping check '${file}'`,
  );
  expect(command.stdout.at(-1)).toBe(
    "  npm run crmsync -- start, and in another terminal: npm run crmsync -- doctor",
  );
});

test.for(["wealthbox", "generic"])(
  "init --mapping %s: PULL_FROM where the CRM has no webhooks",
  async (mapping) => {
    await using dir = await tempDir();
    const folder = join(dir.path, "crmsync");
    expect((await init(folder, "--mapping", mapping)).code).toBe(0);
    const { PULL_FROM } = await loaded(join(folder, "env"));
    expect(PULL_FROM).toBe(mapping === "wealthbox" ? mapping : undefined);
    const text = await readFile(join(folder, "env"), "utf8");
    expect(text.includes("# WEALTHBOX_API_TOKEN=")).toBe(mapping === "wealthbox");
  },
);

test.for([
  [["--service", "https://service.example.com/v1.1"], "--service must end before /v1.1"],
  [["--service", "service.example.com"], "--service must be an http or https address"],
  [["--mapping", "hubspott"], "did you mean hubspot?"],
] as const)("init %s is wrong usage", async ([options, message]) => {
  await using dir = await tempDir();
  const { code, err } = await init(join(dir.path, "crmsync"), ...options);
  expect(code).toBe(2);
  expect(err).toContain(message);
  await expect(stat(join(dir.path, "crmsync"))).rejects.toThrow("ENOENT");
});
