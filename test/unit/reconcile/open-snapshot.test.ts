import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSnapshot } from "../../../src/whole/reconcile/open-snapshot.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("a pipe is refused, because a snapshot is read more than once", async () => {
  await using dir = await tempDir();
  const pipe = join(dir.path, "crm");
  execFileSync("mkfifo", [pipe]);
  await expect(openSnapshot(pipe, dir.path)).rejects.toThrow(/is a pipe, .* give - and pipe into/);
});
