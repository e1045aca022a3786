import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TemporaryFile extends AsyncDisposable {
  readonly path: string;
}

/** A path in a directory of its own, which goes with everything in it. */
export async function temporaryFile(name: string): Promise<TemporaryFile> {
  const directory = await mkdtemp(join(tmpdir(), "crmsync-sandbox-"));
  return {
    path: join(directory, name),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, maxRetries: 10 }),
  };
}
