import { execFileSync } from "node:child_process";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { blocksOf } from "../../support/doc-blocks.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("what the guide for Docker writes can be read by its owner alone", async () => {
  const block = blocksOf("docs/deploy.md").find(({ text }) => text.includes("cat > .env"));
  const withoutDocker = (block?.text ?? "").replaceAll(/^(?:sudo|docker) .*$/gm, "");
  await using dir = await tempDir();
  execFileSync("sh", ["-euc", `umask 022\n${withoutDocker}`], {
    cwd: dir.path,
    env: { ...process.env, TOKEN: "token" },
  });
  const modeOf = async (name: string) => (await stat(join(dir.path, name))).mode & 0o777;
  expect(await modeOf("secrets")).toBe(0o700);
  expect(await modeOf(".env")).toBe(0o600);
});
