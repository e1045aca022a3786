import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
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

it("systemd understands the lines for credentials in docs/deploy.md", async (context) => {
  const analyze = await requireTool(context, ANALYZE);
  await using dir = await tempDir();
  const docs = await readFile(join(import.meta.dirname, "../../../docs/deploy.md"), "utf8");
  const [, lines = ""] = /^```ini\n([^]*?)^```/m.exec(docs) ?? [];
  expect(lines).toContain("LoadCredential=");
  const service = join(dir.path, "crmsync.service");
  await writeFile(service, await readFile(unit, "utf8"));
  await mkdir(`${service}.d`);
  const complaints = async (text: string) => {
    await writeFile(join(`${service}.d`, "override.conf"), text);
    return (await run(analyze, ["verify", service])).stderr;
  };
  expect(await complaints(lines)).toBe("");
  expect(await complaints(lines.replace("LoadCredential", "LoadCredentials"))).toContain(
    "Unknown key",
  );
});
