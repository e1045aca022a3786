import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** Path → content of every file under a folder. One byte is one character. */
export async function textOfFiles(dir: string): Promise<Map<string, string>> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const texts = new Map<string, string>();
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    // It may be gone by now: Redis replaces its own files.
    texts.set(path, await readFile(path, "latin1").catch(() => ""));
  }
  return texts;
}
