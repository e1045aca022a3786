import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeReport } from "../../../src/whole/reconcile/report.ts";
import { WorkFile } from "../../../src/whole/reconcile/work-file.ts";
import { tempDir } from "../../support/temp-dir.ts";

test("A report in CSV has no cell that a spreadsheet takes for a formula", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  for (const code of ["=1+1", '@SUM("a")', "-4711", "a-b", "4711"]) {
    work.add("records", { code, ord: "", status: "terminated", ends: 1, kind: "extra" });
  }
  const file = join(dir.path, "report.csv");
  await writeReport(file, work, undefined);
  work.remove();
  expect((await readFile(file, "utf8")).split("\r\n")).toEqual([
    "crmCode,kind,place,fields,problems,values,emptied",
    "'-4711,extra,,,,,",
    "4711,extra,,,,,",
    "'=1+1,extra,,,,,",
    `"'@SUM(""a"")",extra,,,,,`,
    "a-b,extra,,,,,",
    "",
  ]);
});

test("An older report stays until the new one is complete", async () => {
  await using dir = await tempDir();
  const work = new WorkFile(join(dir.path, "work.sqlite"));
  work.remove();
  const file = join(dir.path, "report.ndjson");
  await writeFile(file, "older\n");
  await expect(writeReport(file, work, undefined)).rejects.toThrow("cannot be written");
  expect(await readFile(file, "utf8")).toBe("older\n");
  expect(await readdir(dir.path)).toEqual(["report.ndjson"]);
});
