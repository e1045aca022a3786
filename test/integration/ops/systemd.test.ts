import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";

const run = promisify(execFile);
const unit = join(import.meta.dirname, "../../../deploy/systemd/crmsync.service");
const ANALYZE = {
  commands: ["systemd-analyze"],
  check: ["--version"],
  debianPackage: "systemd",
};

it("systemd understands every line of the unit", async (context) => {
  const analyze = await requireTool(context, ANALYZE);
  const complaints = async (file: string) => (await run(analyze, ["verify", file])).stderr;
  expect(await complaints(unit)).toBe("");
  await using dir = await tempDir();
  const wrong = join(dir.path, "wrong.service");
  await writeFile(wrong, (await readFile(unit, "utf8")).replace("MemoryMax", "MemoryMx"));
  expect(await complaints(wrong)).toContain("Unknown key");
});
