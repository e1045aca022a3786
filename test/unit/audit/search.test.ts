/** Finding lines in files that are not as crmsync has written them. */
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LineHashes, makeLine } from "../../../src/people/audit/line.ts";
import { allLines, findLines } from "../../../src/people/audit/search.ts";
import { tempDir } from "../../support/temp-dir.ts";

const at = "2026-11-01T00:00:00.000Z";
const line = (crmCode: string) =>
  makeLine("abc", undefined, { at, act: "change", crmCode }, new LineHashes([])).text;

test("a hole in a file is passed over, and does not fill the memory", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "audit.log");
  await writeFile(file, `${line("before")}\r\n`);
  const handle = await open(file, "a");
  await handle.truncate(20 * 2 ** 20);
  await handle.appendFile(`\n${line("after")}`);
  await handle.close();
  const began = process.cpuUsage();
  const { lines, next } = await findLines([file], {}, { most: 50 });
  expect(lines.map(({ fields }) => fields["crmCode"])).toEqual(["after", "before"]);
  expect(next).toBeUndefined();
  // Reading it took the square of its length: 7 s of the processor.
  expect(process.cpuUsage(began).user).toBeLessThan(4_000_000);
  const all = await Array.fromAsync(allLines([file], {}));
  expect(all.map(({ line: { fields } }) => fields["crmCode"])).toEqual(["before", "after"]);
});
