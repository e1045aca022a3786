import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { realpath, rename, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

/**
 * Writes a file, or replaces one whose mode it keeps. Until all is written, the older file stays as it is.
 * A pipe or a device gets the text at once. @throws the system's error.
 */
export async function writeWhole(
  file: string,
  text: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  const older = await stat(file).catch(() => undefined);
  const mode = older === undefined ? 0o600 : older.mode & 0o777;
  if (older?.isFile() === false) return pipeline(text, createWriteStream(file));
  const target = older === undefined ? file : await realpath(file);
  const part = `${target}.part`;
  try {
    const stream = createWriteStream(part, { mode });
    // Opened before the text is read: if that fails at once, the file is there and can be removed.
    await once(stream, "open");
    await pipeline(text, stream);
    await rename(part, target);
  } catch (error) {
    await rm(part, { force: true }).catch(() => {});
    throw error;
  }
}
