/** `crmsync … | head -1`: the reader of an output has left before the command writes. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, inject, test } from "vitest";
import { startSandbox } from "../../src/sandbox/serve.ts";
import { personEvent } from "../support/person-event.ts";
import { ownPort } from "../support/own-port.ts";
import { isolatedEnv, spawnCommand } from "../support/process.ts";
import { tempDir } from "../support/temp-dir.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

const MAIN = join(import.meta.dirname, "../../src/cli/main.ts");

/** Runs a command, and closes one of its outputs. @returns its exit code and the other output. */
async function withoutReaderOf(
  closed: "stdout" | "stderr",
  args: readonly string[],
  env: Record<string, string>,
): Promise<{ code: number | null; other: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: isolatedEnv(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  child[closed].destroy();
  const other = text(closed === "stdout" ? child.stderr : child.stdout);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, other: await other };
}

test("a command whose reader has left finishes its work, without a stack", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "events.ndjson");
  // Complaints that fail to be written, and then a good event.
  const lines = [...Array<string>(30).fill("{"), JSON.stringify(personEvent("a"))];
  await writeFile(file, lines.join("\n"));
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const relations = join(dir.path, "relations.ndjson");
  const { data } = personEvent("a") as { data?: { record: unknown } };
  await writeFile(relations, JSON.stringify(data?.record));
  const database = join(dir.path, "sandbox.db");
  await (await startSandbox({ database })).close();
  const db = ["--db", database];
  const imported = await withoutReaderOf("stdout", ["sandbox", "import", relations, ...db], env);
  expect(imported).toEqual({ code: 0, other: "" });
  const [help, wrong, push, watch, exported] = await Promise.all([
    withoutReaderOf("stdout", ["--help"], env),
    withoutReaderOf("stderr", ["push"], env),
    withoutReaderOf("stderr", ["push", file, "--json"], env),
    withoutReaderOf("stdout", ["status", "--watch"], env),
    withoutReaderOf("stdout", ["sandbox", "export", ...db], env),
  ]);
  expect(help).toEqual({ code: 0, other: "" });
  expect(wrong).toEqual({ code: 2, other: "" });
  expect(push).toEqual({ code: 1, other: '{"accepted":1,"duplicates":0,"invalid":30}\n' });
  expect(watch).toEqual({ code: 0, other: "" });
  expect(exported).toEqual({ code: 0, other: "" });
});

test("a command finishes its work while the disk of its messages is full", async () => {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  const args = [process.execPath, MAIN, "push", "-", "--json"];
  const input = `{\n${JSON.stringify(personEvent("a"))}`;
  const shell = ["-c", 'exec "$0" "$@" 2>/dev/full', ...args];
  await using push = spawnCommand("sh", shell, { env, input });
  expect(await push.ended).toEqual({ code: 1, signal: null });
  expect(push.stdout).toEqual(['{"accepted":1,"duplicates":0,"invalid":1}']);
});

test("a command whose output cannot be written fails, the doctor too", async () => {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix() };
  for (const args of [["status"], ["doctor", "--json"]]) {
    const shell = ["-c", 'exec "$0" "$@" >/dev/full', process.execPath, MAIN, ...args];
    await using command = spawnCommand("sh", shell, { env });
    expect(await command.ended).toEqual({ code: 1, signal: null });
    expect(command.stderr).toEqual([
      expect.stringMatching(/^crmsync: stdout cannot be written: ENOSPC/),
    ]);
  }
});

test("the daemon works on when its outputs are closed", async () => {
  const port = String(await ownPort());
  const child = spawn(process.execPath, [MAIN, "start", "--roles", "http", "--json"], {
    env: isolatedEnv({
      REDIS_URL: inject("redisUrl"),
      QUEUE_PREFIX: uniquePrefix(),
      HTTP_PORT: port,
      LOG_FORMAT: "text",
    }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  child.stdout.destroy();
  child.stderr.destroy();
  const isAlive = async () => (await fetch(`http://127.0.0.1:${port}/livez`)).ok;
  await waitFor(isAlive, { what: "it is alive" });
  // Two more lines for the log, at least.
  child.kill("SIGUSR2");
  child.kill("SIGTERM");
  expect(await once(child, "close")).toEqual([0, null]);
});

test("the daemon works on while the disk of its log is full", async () => {
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    HTTP_PORT: "0",
    INGEST_AUTH: "none",
  };
  const args = [process.execPath, MAIN, "start", "--roles", "http", "--json"];
  await using daemon = spawnCommand("sh", ["-c", 'exec "$0" "$@" 2>/dev/full', ...args], { env });
  const [line] = await daemon.line(/^\{.*"url".*\}$/);
  const { url } = JSON.parse(line) as { url: string };
  const push = () =>
    fetch(`${url}/events`, {
      method: "POST",
      headers: { "content-type": "application/cloudevents+json" },
      body: JSON.stringify(personEvent("a")),
    });
  for (let times = 0; times < 5; times += 1) {
    daemon.kill("SIGUSR2");
    expect((await push()).status).toBe(202);
  }
  daemon.kill("SIGTERM");
  expect(await daemon.ended).toEqual({ code: 0, signal: null });
});
