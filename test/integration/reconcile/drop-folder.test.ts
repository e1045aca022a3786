/** The drop folder on a real file system: which files are taken, and where they end. */
import {
  mkdir,
  readdir,
  readFile,
  rename,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DropFolder } from "../../../src/whole/reconcile/drop/drop-folder.ts";
import { removeOld } from "../../../src/whole/reconcile/drop/taken-file.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { waitFor } from "../../support/wait-for.ts";

const QUIET_MS = 60_000;
const DAY_MS = 86_400_000;

async function newFolder() {
  const dir = await tempDir();
  const write = async (name: string, text = "a,b\n1,2\n") => {
    await writeFile(join(dir.path, name), text);
    return join(dir.path, name);
  };
  const names = async (folder = "") =>
    (await readdir(join(dir.path, folder))).filter((name) => !name.startsWith(".")).toSorted();
  return {
    folder: new DropFolder(dir.path, QUIET_MS),
    path: dir.path,
    write,
    names,
    [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose](),
  };
}

test("a file without a marker is taken once it was seen unchanged for a minute, whatever its times say", async () => {
  await using drop = await newFolder();
  const { folder } = drop;
  const old = await drop.write("old.csv");
  await utimes(old, 0, (Date.now() - DAY_MS) / 1000);
  const future = await drop.write("future.csv");
  await utimes(future, 0, (Date.now() + DAY_MS) / 1000);
  expect(await folder.look(0)).toEqual({ ready: undefined, waiting: 2, failed: 0 });
  expect((await folder.look(QUIET_MS - 1)).ready).toBe(undefined);
  // It grows, and gets its earlier time back.
  await drop.write("old.csv", "a,b\n1,2\n3,4\n");
  await utimes(old, 0, (Date.now() - DAY_MS) / 1000);
  expect((await folder.look(QUIET_MS)).ready).toBe("future.csv");
  expect((await folder.look(2 * QUIET_MS - 1)).ready).toBe("future.csv");
  // The older one goes first.
  expect((await folder.look(2 * QUIET_MS)).ready).toBe("old.csv");
});

test("a file that replaces another of the same size and time counts as changed", async () => {
  await using drop = await newFolder();
  const file = await drop.write("crm.csv");
  await utimes(file, 1000, 1000);
  await drop.folder.look(0);
  const other = await drop.write("crm.csv.tmp", "a,b\n8,9\n");
  await utimes(other, 1000, 1000);
  await rename(other, file);
  expect((await drop.folder.look(QUIET_MS)).ready).toBe(undefined);
  expect((await drop.folder.look(2 * QUIET_MS)).ready).toBe("crm.csv");
});

test("names of unfinished files, hidden files, folders and links are left alone", async () => {
  await using drop = await newFolder();
  for (const name of [".crm.csv", "a.part", "b.csv.TMP", "c.filepart", "~$d.csv", "e.csv~"]) {
    await drop.write(name);
  }
  await mkdir(join(drop.path, "folder.csv"));
  await symlink("/etc/hostname", join(drop.path, "link.csv"));
  await drop.folder.look(0);
  expect(await drop.folder.look(100 * QUIET_MS)).toEqual({
    ready: undefined,
    waiting: 0,
    failed: 0,
  });
});

test.each(["crm.csv.done", "crm.done"])(
  "the marker %s makes a file complete at once",
  async (marker) => {
    await using drop = await newFolder();
    await drop.write("crm.csv");
    expect((await drop.folder.look(0)).ready).toBe(undefined);
    await drop.write(
      marker,
      "sha256 7d1a\nas-of: 2026-11-21T08:00:00Z\nobject: contact\nid-from=Nr\n",
    );
    expect((await drop.folder.look(1)).ready).toBe("crm.csv");
    const taken = await drop.folder.take("crm.csv");
    expect(taken?.task).toEqual({
      name: "crm.csv",
      tries: 0,
      asOf: Date.parse("2026-11-21T08:00:00Z"),
      object: "contact",
      idFrom: "Nr",
    });
    expect(await drop.names()).toEqual(["done", "failed", "taken"]);
  },
);

test.each([
  ["", undefined],
  [
    "encoding: windows-1250\n",
    "crm.csv.done was written before crm.csv was, and may say of another file how it is read: write it after the file",
  ],
])(
  "a marker that is older than its file's last change is too early, with the text %j",
  async (text, problem) => {
    await using drop = await newFolder();
    const { ctimeMs } = await stat(await drop.write("crm.csv.done", text));
    // The times of a file system have a grain.
    await waitFor(async () => (await stat(await drop.write("crm.csv"))).ctimeMs > ctimeMs, {
      what: "a later time",
    });
    expect((await drop.folder.look(0)).ready).toBe(undefined);
    expect((await drop.folder.look(QUIET_MS)).ready).toBe("crm.csv");
    expect((await drop.folder.take("crm.csv"))?.task.problem).toBe(problem);
  },
);

test("a marker whose time cannot be read is a problem, not a guess", async () => {
  await using drop = await newFolder();
  await drop.write("crm.csv");
  await drop.write("crm.csv.done", "as-of: yesterday\n");
  const taken = await drop.folder.take("crm.csv");
  expect(taken?.task.problem).toMatch(/crm\.csv\.done: as-of must be a time/);
});

test("a marker in UTF-16, as PowerShell writes it, is a problem, and not empty", async () => {
  await using drop = await newFolder();
  await drop.write("crm.csv");
  const text = Buffer.from("\ufeffas-of: 2026-11-21T08:00:00Z\r\n", "utf16le");
  await writeFile(join(drop.path, "crm.csv.done"), text);
  const taken = await drop.folder.take("crm.csv");
  expect(taken?.task.problem).toBe("crm.csv.done is not UTF-8: save it as UTF-8");
});

test("an empty file waits an hour for its content", async () => {
  await using drop = await newFolder();
  await drop.write("crm.csv", "");
  await drop.folder.look(0);
  expect((await drop.folder.look(59 * QUIET_MS)).ready).toBe(undefined);
  expect((await drop.folder.look(60 * QUIET_MS)).ready).toBe("crm.csv");
});

test("what was taken survives a crash, and its move is continued", async () => {
  await using drop = await newFolder();
  await drop.write("crm.csv");
  const taken = await drop.folder.take("crm.csv");
  await taken?.begin();
  // Another process looks at the same folder.
  const other = new DropFolder(drop.path, QUIET_MS);
  expect((await other.look(0)).ready).toBe("crm.csv");
  const again = await other.take("crm.csv");
  expect(again?.task.tries).toBe(1);
  await writeFile(again?.report ?? "", "{}\n");
  // It crashes after it has noted where the file goes.
  await again?.note({ end: { folder: "done", name: "crm.csv" } });
  expect((await other.look(0)).ready).toBe("crm.csv");
  expect(await other.take("crm.csv")).toBe(undefined);
  expect(await drop.names("done")).toEqual(["crm.csv", "crm.csv.report.ndjson"]);
  expect(await other.look(0)).toEqual({ ready: undefined, waiting: 0, failed: 0 });
});

test("no file in done is overwritten, and failed ones are counted", async () => {
  await using drop = await newFolder();
  for (const text of ["1", "2", "3"]) {
    await drop.write("crm.v1.csv", text);
    const taken = await drop.folder.take("crm.v1.csv");
    await taken?.end("done", (place) => ({ place }));
  }
  expect(await drop.names("done")).toEqual([
    "crm.v1-2.csv",
    "crm.v1-2.csv.result.json",
    "crm.v1-3.csv",
    "crm.v1-3.csv.result.json",
    "crm.v1.csv",
    "crm.v1.csv.result.json",
  ]);
  expect(await readFile(join(drop.path, "done/crm.v1.csv"), "utf8")).toBe("1");
  expect(
    JSON.parse(await readFile(join(drop.path, "done/crm.v1-3.csv.result.json"), "utf8")),
  ).toEqual({ place: join(drop.path, "done/crm.v1-3.csv") });
  await drop.write("bad.csv");
  await (await drop.folder.take("bad.csv"))?.end("failed", () => ({}));
  expect(await drop.folder.look(0)).toEqual({ ready: undefined, waiting: 0, failed: 1 });
});

test("a folder that is missing or may not be written is an error that names the reason", async () => {
  await using drop = await newFolder();
  const missing = new DropFolder(join(drop.path, "missing"), QUIET_MS);
  await expect(missing.look(0)).rejects.toMatchObject({ code: "ENOENT" });
  await writeFile(join(drop.path, "file"), "");
  const file = new DropFolder(join(drop.path, "file"), QUIET_MS);
  await expect(file.look(0)).rejects.toThrow(/ENOTDIR|EACCES/);
  const proc = new DropFolder("/proc/self", QUIET_MS);
  await expect(proc.look(0)).rejects.toThrow();
});

test("done keeps an export for 30 days; what crmsync did not put there stays", async () => {
  await using drop = await newFolder();
  await drop.write("crm.csv");
  const taken = await drop.folder.take("crm.csv");
  await writeFile(taken?.report ?? "", "{}\n");
  await taken?.end("done", () => ({}));
  await drop.write("done/own.csv");
  await removeOld(drop.path, Date.now() + 29 * DAY_MS);
  expect(await drop.names("done")).toHaveLength(4);
  await removeOld(drop.path, Date.now() + 31 * DAY_MS);
  expect(await drop.names("done")).toEqual(["own.csv"]);
});

test.for(["taken", "done", "failed"])(
  "a sender cannot make a link of the folder %s",
  async (name) => {
    await using drop = await newFolder();
    await using other = await tempDir();
    await writeFile(join(other.path, "appendonly.aof"), "not the sender's");
    await symlink(other.path, join(drop.path, name));
    await drop.write("crm.csv");
    await drop.write("crm.csv.done");
    await expect(drop.folder.look(0)).rejects.toMatchObject({ code: "ENOTDIR" });
    await expect(drop.folder.take("crm.csv")).rejects.toMatchObject({ code: "ENOTDIR" });
    expect(await readdir(other.path)).toEqual(["appendonly.aof"]);
  },
);

test("what is known of the file that was taken is written to no file that a link names", async () => {
  await using drop = await newFolder();
  await using other = await tempDir();
  const theirs = join(other.path, "appendonly.aof");
  await writeFile(theirs, "not the sender's");
  await drop.write("crm.csv");
  await drop.write("crm.csv.done");
  await drop.folder.look(0);
  await symlink(theirs, join(drop.path, "taken", ".task.json.part"));
  await drop.folder.take("crm.csv");
  expect(await readFile(theirs, "utf8")).toBe("not the sender's");
  expect(JSON.parse(await readFile(join(drop.path, "taken", ".task.json"), "utf8"))).toMatchObject({
    name: "crm.csv",
  });
});
