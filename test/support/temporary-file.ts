import { join } from "node:path";
import { tempDir, type TempDir } from "./temp-dir.ts";

/** The path of a file that does not exist yet, in a new directory of its own. */
export async function temporaryFile(name: string): Promise<TempDir> {
  const dir = await tempDir();
  return { ...dir, path: join(dir.path, name) };
}
