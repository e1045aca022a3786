import { execFile } from "node:child_process";
import { appendFile, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { provideRedisServer } from "../../../src/demo/install-redis-server.ts";
import { findEmbeddedRedis, startEmbeddedRedis } from "../../../src/base/embedded-redis.ts";
import { readAddress, writeConf } from "../../../src/base/redis-conf.ts";
import { UserError } from "../../../src/base/user-error.ts";
import { spawnCommand, spawnCrmsync, spawnNode } from "../../support/process.ts";
import { waitFor } from "../../support/wait-for.ts";
import { connectTo, newDataDir, spawnDaemon, untilNothingRuns, urlOf } from "./support.ts";

const silent = pino({ level: "silent" });

test("The settings are those of a durable queue, on loopback only", async () => {
  const redis = connectTo((await start(await newDataDir())).url);
  const settings = ["appendonly", "appendfsync", "maxmemory-policy", "bind", "protected-mode"];
  const values = await Promise.all(settings.map(async (name) => redis.config("GET", name)));
  expect(values).toEqual([
    ["appendonly", "yes"],
    ["appendfsync", "always"],
    ["maxmemory-policy", "noeviction"],
    ["bind", "127.0.0.1"],
    ["protected-mode", "yes"],
  ]);
});

test("Other users of the machine cannot connect without the password, nor read the files", async () => {
  const dataDir = await newDataDir();
  const { url } = await start(dataDir);
  const { port } = new URL(url);
  await expect(connectTo(`redis://127.0.0.1:${port}`).ping()).rejects.toThrow("NOAUTH");
  const mode = async (path: string) => (await stat(join(dataDir, path))).mode & 0o777;
  expect(await mode("redis")).toBe(0o700);
  expect(await mode("redis/redis.conf")).toBe(0o600);
});

test("The server's log keeps its size, however often the append-only file is rewritten", async () => {
  const dataDir = await newDataDir();
  const redis = connectTo((await start(dataDir)).url);
  const log = () => readFile(join(dataDir, "redis", "redis.log"), "utf8");
  const isRewritten = async () =>
    /^aof_rewrite_in_progress:0\r$/m.test(await redis.info("persistence"));
  const before = await log();
  expect(before).not.toBe("");
  await redis.bgrewriteaof();
  await waitFor(isRewritten, { what: "the rewrite ends" });
  expect(await log()).toBe(before);
});

test("The next start keeps the data and the URL of the last one", async () => {
  const dataDir = await newDataDir();
  const first = await start(dataDir);
  await connectTo(first.url).set("kept", "yes");
  await first.close();
  expect(await first.exited).toBeUndefined();
  await untilNothingRuns(dataDir, first.url);
  const second = await start(dataDir);
  expect(second.url).toBe(first.url);
  expect(await connectTo(second.url).get("kept")).toBe("yes");
});

test("A full disk leaves the password and the port of the last start", async () => {
  const dir = await newDataDir();
  const address = { port: 6379, password: "of-the-last-start" };
  await writeConf(dir, address);
  const module = new URL("../../../src/base/redis-conf.ts", import.meta.url).href;
  const script = `import { writeConf } from "${module}"; writeConf(${JSON.stringify(dir)}, { port: 1, password: "new" })`;
  // The limit stands for a full disk.
  const shell = ["-c", 'ulimit -f 0; exec "$0" "$@"', process.execPath, "-e", script];
  await using limited = spawnCommand("sh", shell);
  expect((await limited.ended).code).toBe(1);
  expect(limited.stderr.join("\n")).toContain("EFBIG");
  expect(readAddress(dir)).toEqual(address);
});

test("If another program has taken the port, the next start uses another port and the same data", async () => {
  const dataDir = await newDataDir();
  const first = await start(dataDir);
  await connectTo(first.url).set("kept", "yes");
  await first.close();
  const other = createServer((socket) => {
    socket.on("error", () => {}); // the caller closes the connection
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  await new Promise<void>((done) => {
    other.listen(Number(new URL(first.url).port), "127.0.0.1", done);
  });
  onTestFinished(() => void other.close());
  const second = await start(dataDir);
  expect(second.url).not.toBe(first.url);
  expect(await connectTo(second.url).get("kept")).toBe("yes");
});

test("A damaged append-only file is named in the last lines of the log, with the page that helps", async () => {
  const dataDir = await newDataDir();
  const first = await start(dataDir);
  await connectTo(first.url).set("kept", "yes");
  await first.close();
  const file = join(dataDir, "redis", "appendonlydir", "appendonly.aof.1.incr.aof");
  await appendFile(file, "*1\r\nnot the length\r\n*1\r\n$4\r\nPING\r\n");
  const error = await start(dataDir).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UserError);
  expect(String(error)).toMatch(/did not start .* see docs\/runbook.md#crmsyncredisaway/);
  expect(String(error)).toContain("Bad file format");
});

test("A file in DATA_DIR that cannot be used is named with what to do", async () => {
  const dataDir = await newDataDir();
  const file = join(dataDir, "redis");
  await mkdir(dataDir, { recursive: true });
  await writeFile(file, "of another program");
  await expect(start(dataDir)).rejects.toThrow(
    `DATA_DIR ${dataDir} cannot be used (EEXIST: file already exists, mkdir '${file}'): name a folder`,
  );
});

test("Another process finds it by the data directory while it runs", async () => {
  const dataDir = await newDataDir();
  expect(await findEmbeddedRedis(dataDir)).toBeUndefined();
  const redis = await start(dataDir);
  expect(await findEmbeddedRedis(dataDir)).toBe(redis.url);
  await redis.close();
  expect(await findEmbeddedRedis(dataDir)).toBeUndefined();
});

test("A second daemon on the directory fails and names the pid of the first", async () => {
  const dataDir = await newDataDir();
  await using first = spawnDaemon(dataDir);
  const url = await urlOf(first);
  await using second = spawnDaemon(dataDir);
  expect(await second.ended).toMatchObject({ code: 1 });
  await second.line(new RegExp(`${dataDir} is in use by process ${first.pid}: stop it first`));
  expect(await connectTo(url).ping()).toBe("PONG");
});

test("A server that exits is restarted on the same URL, and its clients continue", async () => {
  const dataDir = await newDataDir();
  await using daemon = spawnDaemon(dataDir);
  const redis = connectTo(await urlOf(daemon));
  await redis.set("kept", "yes");
  const [, pid] = /process_id:(\d+)/.exec(await redis.info("server")) ?? [];
  process.kill(Number(pid), "SIGKILL");
  await daemon.line(/"reason":"signal SIGKILL".*redis.exited/);
  await daemon.line(/redis.restarted/);
  expect(await redis.get("kept")).toBe("yes");
});

test("A server that cannot be restarted is reported through `exited`", async () => {
  const dataDir = await newDataDir();
  const redis = await start(dataDir);
  await writeFile(join(dataDir, "redis/redis.conf"), "no-such-setting yes\n");
  const client = new Redis(redis.url, { retryStrategy: () => null });
  await client.call("SHUTDOWN", "NOSAVE").catch(() => {});
  expect(await redis.exited).toBe("exit code 1");
  await redis.close();
  await waitFor(async () => (await start(dataDir)).url !== "", {
    what: "the directory is unlocked",
  });
});

test("A machine that has only valkey-server uses it", async () => {
  const bin = await newDataDir();
  const server = await provideRedisServer();
  for (const [name, command] of Object.entries({ sh: "sh", env: "env", "valkey-server": server })) {
    const { stdout } = await promisify(execFile)("sh", ["-c", `command -v ${command}`]);
    await symlink(stdout.trim(), join(bin, name));
  }
  const daemon = join(import.meta.dirname, "daemon.ts");
  await using child = spawnNode([daemon, await newDataDir()], { env: { PATH: bin } });
  await child.line(/^url redis:/);
});

test("Without a redis-server, a start lists every way to get one, and installs none", async () => {
  const bin = await newDataDir();
  const called = join(bin, "called");
  await writeFile(join(bin, "apt-get"), `#!/bin/sh\necho called > ${called}\n`, { mode: 0o755 });
  await using child = spawnCrmsync(["start", "--sandbox"], {
    env: { PATH: bin, DATA_DIR: await newDataDir(), HTTP_PORT: "0", SANDBOX_PORT: "0" },
  });
  expect(await child.ended).toMatchObject({ code: 78 });
  for (const way of [/REDIS_URL/, /apt-get install/, /dnf install/, /brew install/, /docker run/]) {
    await child.line(way);
  }
  await expect(stat(called)).rejects.toThrow("ENOENT");
});

async function start(dataDir: string) {
  const redis = await startEmbeddedRedis({ dataDir, log: silent });
  onTestFinished(async () => redis.close());
  return redis;
}
