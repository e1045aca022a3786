/** An audit trail in real files: rotated, torn, cut off, locked, and on a full disk. */
import {
  appendFile,
  mkdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { FileSink } from "../../../src/people/audit/file-sink.ts";
import { LineHashes, type Head, readLines } from "../../../src/people/audit/line.ts";
import { AuditTrail } from "../../../src/people/audit/trail.ts";
import { Verification, type Verified } from "../../../src/people/audit/verify.ts";
import { spawnCommand } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { waitFor } from "../../support/wait-for.ts";

const PRLIMIT = { commands: ["prlimit"], check: ["--version"], debianPackage: "util-linux" };

const PLAIN = new LineHashes([]);
const KEYED = new LineHashes([Buffer.alloc(32, 7)]);

interface Opened extends AsyncDisposable {
  readonly trail: AuditTrail;
  readonly failures: string[];
  readonly head: () => Head | undefined;
  add(...crmCodes: string[]): Promise<void>;
}

/** As a process opens it. */
function open(path: string, hashes = PLAIN): Opened {
  const failures: string[] = [];
  let head: Head | undefined;
  const trail = new AuditTrail({
    sink: new FileSink(path, hashes, async () => new Map()),
    hashes,
    onHead: (newest) => (head = newest),
    onFailure: (error) => failures.push(error?.message ?? "recovered"),
  });
  return {
    trail,
    failures,
    head: () => head,
    async add(...crmCodes) {
      await Promise.all(crmCodes.map((crmCode) => trail.append({ act: "change", crmCode })));
    },
    [Symbol.asyncDispose]: () => trail.close(),
  };
}

async function verify(files: readonly string[], head?: Head, hashes = PLAIN): Promise<Verified> {
  const known = head === undefined ? [] : [{ head, from: "Redis", isRequired: true }];
  const verification = new Verification(hashes, undefined, known);
  for (const file of files) {
    let number = 0;
    for await (const text of readLines(file)) verification.add(text, file, (number += 1));
  }
  return verification.end();
}

const whole = { faults: [], notes: [] };

async function crmCodesIn(...files: string[]): Promise<unknown[]> {
  const texts = await Promise.all(files.map((file) => readFile(file, "utf8")));
  const lines = texts
    .join("")
    .split("\n")
    .filter((line) => line.startsWith("{"));
  return lines.map((line) => (JSON.parse(line) as { crmCode?: unknown }).crmCode);
}

test("lines of many changes at once are whole, and a restart continues the chain", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const codes = Array.from({ length: 50 }, (_, n) => `p${n}`);
  {
    await using first = open(path);
    await first.add(...codes);
  }
  await using second = open(path);
  await second.add("again");
  expect(await verify([path], second.head())).toMatchObject({ ...whole, chains: [{ first: 1 }] });
  expect(await crmCodesIn(path)).toEqual([...codes, "again"]);
});

test("a rotation while it runs, and one while it does not, keep the chain", async () => {
  await using dir = await tempDir();
  const [path, first, second] = ["audit.log", "audit.log.2", "audit.log.1"].map((name) =>
    join(dir.path, name),
  ) as [string, string, string];
  {
    await using running = open(path);
    await running.add("a");
    await rename(path, first);
    await running.add("b");
  }
  await rename(path, second);
  await writeFile(path, "");
  await using restarted = open(path);
  await restarted.add("c");
  expect(await crmCodesIn(first, second, path)).toEqual(["a", "b", "c"]);
  expect(await verify([first, second, path], restarted.head())).toMatchObject(whole);
  const { faults } = await verify([first, path], restarted.head());
  expect(faults.map(({ says }) => says)).toEqual(["line 2 is missing before line 3"]);
});

test("a line that a crash has torn stays, and the chain goes on with a note", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  {
    await using before = open(path);
    await before.add("a");
  }
  await appendFile(path, '{"chain":"0123","seq":2,"at":"2026-');
  await using after = open(path);
  await after.add("b");
  expect(await verify([path], after.head())).toMatchObject({
    faults: [],
    notes: [{ line: 2, says: expect.stringContaining("torn") as string }],
  });
  expect(await readFile(path, "utf8")).toContain('"at":"2026-\n{');
});

test("a crash before the line's end, or before the head was saved, is no fault", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  {
    await using before = open(path);
    await before.add("a", "b");
  }
  const text = await readFile(path, "utf8");
  await truncate(path, Buffer.byteLength(text) - 1);
  await rm(`${path}.state`);
  await using after = open(path);
  await after.add("c");
  expect(await verify([path], after.head())).toMatchObject(whole);
  expect(await crmCodesIn(path)).toEqual(["a", "b", "c"]);
});

test("a file that is cut off is noticed, while it is written and at the next start", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  {
    await using running = open(path);
    await running.add("a", "b", "c");
    const [line = ""] = (await readFile(path, "utf8")).split("\n");
    await truncate(path, line.length + 1);
    await running.add("d");
    await running.add("e");
    const { faults, notes } = await verify([path], running.head());
    expect(faults.map(({ says }) => says)).toEqual(["lines 2 to 3 are missing before line 4"]);
    expect(notes.map(({ says }) => says)).toEqual([
      "the process found its file shorter than it had left it",
    ]);
  }
  await truncate(path, 0);
  await using restarted = open(path);
  await restarted.add("e");
  const { notes } = await verify([path], restarted.head());
  expect(notes.map(({ says }) => says)).toContain(
    "the process found its file shorter than it had left it",
  );
});

test("a file has one writer: the next one waits for the end of the first, and then continues", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const first = open(path);
  await first.add("a");
  await using second = open(path);
  const added = second.add("b");
  await waitFor(() => second.failures.length > 0, { what: "the second one cannot write" });
  expect(second.failures[0]).toMatch(/another process writes this file/);
  expect(second.trail.isWritable).toBe(false);
  await first.add("a2", "a3");
  await first.trail.close();
  await added;
  expect(second.trail.isWritable).toBe(true);
  expect(await verify([path], second.head())).toMatchObject(whole);
  expect(await crmCodesIn(path)).toEqual(["a", "a2", "a3", "b"]);
});

test("on a full disk lines wait, and none is lost or written twice", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  await symlink("/dev/full", path);
  await using running = open(path);
  const added = running.add("a", "b");
  await waitFor(() => running.failures.length > 0, { what: "the disk is full" });
  expect(running.failures[0]).toMatch(/ENOSPC/);
  expect(running.trail.isWritable).toBe(false);
  await rm(path);
  await added;
  expect(running.failures).toEqual([expect.stringMatching(/ENOSPC/), "recovered"]);
  expect(await crmCodesIn(path)).toEqual(["a", "b"]);
  expect(await verify([path], running.head())).toMatchObject(whole);
});

test("on a full disk no line is torn, also where stdout is the file", async (context) => {
  await requireTool(context, PRLIMIT);
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const script = join(import.meta.dirname, "stdout-trail.ts");
  // The limit stands for a full disk; a block has 512 or 1024 bytes.
  const shell = ["-c", 'ulimit -S -f 1; exec "$0" "$1" > "$2"', process.execPath, script, path];
  await using writing = spawnCommand("sh", shell);
  expect(await writing.ended).toEqual({ code: 0, signal: null });
  expect(writing.stderr).toEqual([expect.stringMatching(/EFBIG/), "recovered"]);
  expect(await crmCodesIn(path)).toHaveLength(8);
  expect(await verify([path])).toMatchObject(whole);
});

test("the end of the process gives up a line that cannot be written", async () => {
  await using dir = await tempDir();
  await using running = open(join(dir.path, "missing", "audit.log"));
  const added = running.add("a").catch((error: Error) => error.name);
  await waitFor(() => running.failures.length > 0, { what: "the folder is missing" });
  running.trail.giveUp();
  expect(await added).toBe("NotRecorded");
});

test("nothing is added to another program's file, nor without the key of the last line", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  await writeFile(path, "Nov 21 12:00:00 host sshd: hello\n");
  {
    await using foreign = open(path);
    foreign.add("a").catch(() => {});
    await waitFor(() => foreign.failures[0]?.includes("move the file away"), { what: "refused" });
    foreign.trail.giveUp();
  }
  expect(await readFile(path, "utf8")).toBe("Nov 21 12:00:00 host sshd: hello\n");
  const keyed = join(dir.path, "keyed.log");
  {
    await using withKey = open(keyed, KEYED);
    await withKey.add("a");
  }
  await using without = open(keyed);
  without.add("b").catch(() => {});
  await waitFor(() => without.failures[0]?.includes("AUDIT_KEY does not hold"), {
    what: "refused",
  });
  expect(await verify([keyed], undefined, KEYED)).toMatchObject({ ...whole, lines: 1 });
});

test("who listens learns at once when lines cannot be written, and when they can", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "later/audit.log");
  await using opened = open(path);
  const seen: boolean[] = [];
  const unlisten = opened.trail.onFailureChange(() =>
    seen.push(opened.trail.failure === undefined),
  );
  const added = opened.add("a");
  await waitFor(() => seen.length === 1, { what: "the failure is told" });
  await mkdir(join(dir.path, "later"));
  await added;
  expect(seen).toEqual([false, true]);
  unlisten();
});
