import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { redisUrlOf } from "../../../src/base/connect-redis.ts";
import { DataDirInUse, diskText, lockDataDir } from "../../../src/base/data-dir.ts";

function newDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "crmsync-lock-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return join(dir, "made/on/demand");
}

test("A locked directory cannot be locked again before its release; the error names the holder's pid and what to do", () => {
  const dir = newDir();
  const lock = lockDataDir(dir);
  expect(() => lockDataDir(dir)).toThrow(DataDirInUse);
  expect(() => lockDataDir(dir)).toThrow(`${dir} is in use by process ${process.pid}:`);
  // With a Redis of its own, it would have a second quota, and none of the waiting changes.
  expect(() => lockDataDir(dir)).toThrow("of the same daemon, set REDIS_URL to");
  lock.release();
  lockDataDir(dir).release();
});

test("A file in the place of the directory is named", () => {
  const dir = dirname(dirname(dirname(newDir())));
  const file = join(dir, "file");
  writeFileSync(file, "");
  expect(() => lockDataDir(file)).toThrow(
    `DATA_DIR ${file} cannot be used (EEXIST): name a folder`,
  );
});

test("A pid file left behind by a killed process does not block the directory", () => {
  const dir = newDir();
  const lock = lockDataDir(dir);
  const stale = readFileSync(join(dir, "daemon.pid"), "utf8");
  lock.release();
  expect(stale).toBe(`${process.pid}\n`);
  lockDataDir(dir).release();
});

test("A command says whether a daemon runs by its lock: a pid that was left behind may be another program's", async () => {
  const dir = newDir();
  const why = () => redisUrlOf({ REDIS_URL: undefined, DATA_DIR: dir });
  await expect(why()).rejects.toThrow(`no daemon is running on DATA_DIR ${dir}`);
  const lock = lockDataDir(dir);
  await expect(why()).rejects.toThrow(`the daemon ${process.pid} runs on DATA_DIR ${dir}`);
  lock.release();
  writeFileSync(join(dir, "daemon.pid"), `${process.pid}\n`);
  await expect(why()).rejects.toThrow(`no daemon is running on DATA_DIR ${dir}`);
  lockDataDir(dir).release();
});

test.skipIf(process.platform !== "linux")(
  "A disk is called full where nothing is left",
  async () => {
    expect(await diskText("/proc")).toBe(": its disk is full (0.0 MiB left)");
    expect(await diskText(tmpdir())).toBe("");
    expect(await diskText(newDir())).toBe("");
  },
);
