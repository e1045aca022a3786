import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { readScript } from "../../../src/base/redis-script.ts";
import { requireTool } from "../../support/requirements.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FILES = globSync("{src,workers}/**/*.lua", { cwd: ROOT }).sort();
const addressOf = (file: string): URL => pathToFileURL(join(ROOT, file));

const REPORT = ["--no-config", "--no-color", "--quiet", "--no-max-line-length"];

/** Redis runs Lua 5.1, with five globals of its own. */
const GLOBALS = ["--std", "lua51", "--read-globals", "redis", "cjson", "cmsgpack", "KEYS", "ARGV"];

const LUACHECK = { commands: ["luacheck"], check: ["--version"], debianPackage: "lua-check" };

/** Files that other files include. */
async function findIncluded(): Promise<Set<string>> {
  const included = new Set<string>();
  for (const file of FILES) {
    const text = await readFile(join(ROOT, file), "utf8");
    for (const [, path = ""] of text.matchAll(/@include\s+["'](.+?)["']/g)) {
      included.add(new URL(path, addressOf(file)).href);
    }
  }
  return included;
}

async function findScripts(): Promise<string[]> {
  const included = await findIncluded();
  return FILES.filter((file) => !included.has(addressOf(file).href));
}

test("luacheck finds no problem in any script with its includes", async (context) => {
  const luacheck = await requireTool(context, LUACHECK);
  const scripts = await findScripts();
  expect(scripts.length).toBeGreaterThanOrEqual(20);
  const folder = await mkdtemp(join(tmpdir(), "crmsync-lua-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const expanded = scripts.map((file) => join(folder, file.replaceAll("/", "-")));
  for (const [index, file] of scripts.entries()) {
    await writeFile(expanded[index] ?? "", readScript(addressOf(file)));
  }
  const report = await run(luacheck, [...REPORT, ...GLOBALS, "--", ...expanded]);
  expect(report).toContain(`Total: 0 warnings / 0 errors in ${scripts.length} files`);
});

test("Every include is a file that is there, and is expanded", async () => {
  const included = await findIncluded();
  const known = new Set(FILES.map((file) => addressOf(file).href));
  expect(included.size).toBeGreaterThanOrEqual(1);
  expect([...included].filter((address) => !known.has(address))).toEqual([]);
  for (const file of FILES) expect(readScript(addressOf(file)), file).not.toContain("@include");
});

test("Every script begins with what it does, its keys, and what it returns", async () => {
  for (const file of await findScripts()) {
    const text = await readFile(join(ROOT, file), "utf8");
    const end = text.search(/^(?!-- |--$)/m);
    const [head, body] = [text.slice(0, end), text.slice(end)];
    for (const part of ["KEYS", "Returns"]) expect(head, file).toContain(part);
    expect(head.includes("ARGV"), file).toBe(body.includes("ARGV"));
  }
});

/** The report; with problems luacheck exits 1, which is no error here. */
function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(command, args, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
}
