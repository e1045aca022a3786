/** An audit file that is replaced, with all that lies beside it, by an older copy or a new chain. */
import { appendFile, cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, inject, test } from "vitest";
import { LineHashes, makeLine } from "../../../src/people/audit/line.ts";
import { runCommand } from "../../support/audit-lines.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

/** A process that writes these lines, and ends. */
async function write(env: Record<string, string>, ...crmCodes: string[]): Promise<void> {
  const { auditActs, trail } = newRuntime(env);
  for (const crmCode of crmCodes) await trail?.append({ act: "change", crmCode });
  await trail?.close();
  // Redis has the newest line before it answers.
  await auditActs.heads();
}

test("lines that are gone stay missing, also when the chain is longer again", async () => {
  await using dir = await tempDir();
  const folder = join(dir.path, "audit");
  const copy = join(dir.path, "copy");
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    AUDIT_LOG: join(folder, "audit.log"),
    AUDIT_KEY: Buffer.alloc(32, 9).toString("base64"),
  };
  await mkdir(folder);
  await write(env, "a");
  await cp(folder, copy, { recursive: true });
  await write(env, "b", "c");
  await rm(folder, { recursive: true });
  await rename(copy, folder);
  await write(env, "d", "e", "f");
  const { code, out } = await runCommand(env, "audit", "verify");
  expect(out).toContain("lines 2 to 3 are missing before line 4");
  expect(code).toBe(1);
});

test.for([
  ["with its state", (path: string) => Promise.all([rm(path), rm(`${path}.state`)])],
  ["alone", (path: string) => rm(path)],
] as const)("a trail that was removed %s is told after the restart", async ([what, remove]) => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: path };
  await write(env, "a", "b");
  expect(await lostIn(env), what).toEqual([false]);
  await remove(path);
  await write(env, "c");
  await write(env, "d");
  expect(await lostIn(env)).toEqual([true]);
  const { code, out } = await runCommand(env, "audit", "verify");
  expect(out).toContain(
    "the lines before line 3 are gone: the process found its file removed or cut",
  );
  expect(code).toBe(1);
});

const lostIn = async (env: Record<string, string>) =>
  [...(await newRuntime(env).auditActs.heads()).values()].map(({ lostAt }) => lostAt !== undefined);

test.for([
  ["renamed", (path: string) => rename(path, `${path}.1`)],
  [
    "renamed and compressed",
    async (path: string) => {
      await writeFile(`${path}.1.gz`, gzipSync(await readFile(path)));
      await rm(path);
    },
  ],
] as const)("a trail that was %s is none that was removed", async ([, rotate]) => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: path };
  await write(env, "a", "b");
  await rotate(path);
  const { auditActs, trail } = newRuntime(env);
  await trail?.append({ act: "change", crmCode: "c" });
  await rm(`${path}.1`, { force: true }).then(() => rotate(path));
  await trail?.append({ act: "change", crmCode: "d" });
  await trail?.close();
  await auditActs.heads();
  expect(await lostIn(env)).toEqual([false]);
});

test("a trail that was moved away while it was written is told, until verify finds all its lines", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: path };
  const { auditActs, trail } = newRuntime(env);
  await trail?.append({ act: "change", crmCode: "a" });
  await cp(path, join(dir.path, "elsewhere"));
  await rm(path);
  await trail?.append({ act: "change", crmCode: "b" });
  await trail?.append({ act: "change", crmCode: "c" });
  await trail?.close();
  await auditActs.heads();
  expect(await lostIn(env)).toEqual([true]);
  expect((await runCommand(env, "audit", "verify")).code).toBe(0);
  expect(await lostIn(env), "its first lines were not seen").toEqual([true]);
  await rename(join(dir.path, "elsewhere"), `${path}.1`);
  const { code, out } = await runCommand(env, "audit", "verify");
  expect([code, out]).toEqual([0, expect.stringContaining("lines 1 to 4") as string]);
  expect(await lostIn(env)).toEqual([false]);
  await write(env, "d");
  expect(await lostIn(env)).toEqual([false]);
});

test("a chain that somebody has written into the file is no trail that Redis knows", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: path };
  await write(env, "a", "b");
  const fields = { at: new Date().toISOString(), act: "held.release", by: "anna" };
  const { text } = makeLine("f0f0f0f0f0f0", undefined, fields, new LineHashes([]));
  await appendFile(path, `${text}\n`);
  const { code, out } = await runCommand(env, "audit", "verify");
  expect(out).toContain("Redis does not know the chain f0f0f0f0f0f0");
  expect(code).toBe(1);
});

test("a chain of which Redis knows nothing may be cut off, and files without a line prove nothing", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: uniquePrefix(), AUDIT_LOG: path };
  await write(env, "a", "b");
  const known = await runCommand(env, "audit", "verify", path);
  expect(known).toMatchObject({ code: 0, out: expect.not.stringContaining("note:") as string });
  const stranger = { ...env, QUEUE_PREFIX: uniquePrefix() };
  const { code, out } = await runCommand(stranger, "audit", "verify", path);
  expect(out).toMatch(
    /^note: no head of the chain \w+ is known from elsewhere: a cut-off end goes/m,
  );
  expect(code).toBe(0);
  await writeFile(path, "");
  expect(await runCommand(stranger, "audit", "verify", path)).toEqual({
    code: 1,
    out: "there is no line: nothing was verified\n0 lines, 1 fault",
  });
});

test("a chain that another container has written to this path is named when it is not there", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, "audit.log");
  const prefix = uniquePrefix();
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: prefix, AUDIT_LOG: path };
  await write(env, "a", "b");
  const { auditActs } = newRuntime(env);
  for (const [chain, head] of await auditActs.heads()) {
    await auditActs.noteHead(chain, { ...head, where: `${path} on 0123456789ab` });
  }
  await rm(path);
  await rm(`${path}.state`);
  await write(env, "c");
  expect((await runCommand(env, "audit", "verify")).out).toMatch(
    /^note: the chain \w+, which Redis knows up to line 2, is not here: it was written to .* on 0123456789ab;/m,
  );
});
