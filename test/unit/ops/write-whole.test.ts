import { lstat, readFile, readdir, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { writeWhole } from "../../../src/base/write-whole.ts";
import { temporaryFile } from "../../support/temporary-file.ts";

test("an older file stays until a new one is complete, and a failed one leaves nothing", async () => {
  await using file = await temporaryFile("relations");
  await writeFile(file.path, "older\n", { mode: 0o640 });
  function* failing(): Generator<string> {
    yield "new\n";
    throw new Error("the database is damaged");
  }
  await expect(writeWhole(file.path, failing())).rejects.toThrow("the database is damaged");
  expect(await readFile(file.path, "utf8")).toBe("older\n");
  expect(await readdir(dirname(file.path))).toEqual(["relations"]);

  const link = join(dirname(file.path), "link");
  await symlink(file.path, link);
  await writeWhole(link, ["new\n"]);
  expect(await readFile(file.path, "utf8")).toBe("new\n");
  expect((await stat(file.path)).mode & 0o777).toBe(0o640);
  expect((await lstat(link)).isSymbolicLink()).toBe(true);
});

test("a new file is readable by its owner only", async () => {
  await using file = await temporaryFile("relations");
  await writeWhole(file.path, ["a\n", "b\n"]);
  expect(await readFile(file.path, "utf8")).toBe("a\nb\n");
  expect((await stat(file.path)).mode & 0o777).toBe(0o600);
});
