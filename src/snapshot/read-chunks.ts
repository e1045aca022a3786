import { open } from "node:fs/promises";

const CHUNK_BYTES = 262_144;

/**
 * The bytes of a file. Each chunk is only valid until the next one: one buffer serves for all of them,
 * because a stream's buffers wait for the garbage collection, more than 100 MB of them.
 */
export async function* readChunks(file: string): AsyncGenerator<Buffer> {
  const handle = await open(file);
  try {
    const buffer = Buffer.alloc(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await handle.close();
  }
}
