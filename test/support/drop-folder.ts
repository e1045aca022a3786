/** What the tests of RECONCILE_DIR share. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Fields } from "./reconcile.ts";
import type { TempDir } from "./temp-dir.ts";
import { waitFor } from "./wait-for.ts";

/** An export of persons, one a line. @param status their relationStatus */
export const csv = (
  numbers: readonly number[],
  city: string,
  status: (n: number) => string = () => "active",
) =>
  [
    "type,crmCode,firstName,lastName,city,relationStatus",
    ...numbers.map((n) => `Person,p${n},Ada,Muster ${n},${city},${status(n)}`),
  ]
    .map((row) => `${row}\n`)
    .join("");

/** A folder for RECONCILE_DIR. */
export async function dropFolder(dir: TempDir) {
  const path = join(dir.path, "drop");
  await mkdir(path);
  const namesIn = async (folder: string) =>
    (await readdir(join(path, folder)).catch((): string[] => [])).filter(
      (name) => !name.startsWith("."),
    );
  const result = async (place: string) => {
    const file = join(path, `${place}.result.json`);
    const text = await waitFor(() => readFile(file, "utf8"), { deadlineMs: 90_000, what: file });
    return JSON.parse(text) as Fields;
  };
  return {
    path,
    namesIn,
    result,
    async drop(name: string, text: string, marker = "") {
      await writeFile(join(path, name), text);
      await writeFile(join(path, `${name}.done`), marker);
    },
  };
}
