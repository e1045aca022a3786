import type { FileHandle } from "node:fs/promises";

const FIRST_LOOK = 65_536;
const LINE_END = 10;

export interface FileEnd {
  /** The last complete line, as bytes in a string (latin1). */
  readonly line: string | undefined;
  /** What stands after it: a line that a crash has torn. */
  readonly torn: string;
}

/** Reads the end of a file of lines, however long they are. */
export async function readEnd(file: FileHandle, size: number): Promise<FileEnd> {
  for (let length = FIRST_LOOK; ; length *= 4) {
    const from = Math.max(0, size - length);
    const bytes = Buffer.alloc(size - from);
    await file.read(bytes, 0, bytes.length, from);
    const end = bytes.lastIndexOf(LINE_END);
    const begin = end < 1 ? -1 : bytes.lastIndexOf(LINE_END, end - 1);
    if (begin === -1 && from > 0) continue;
    return {
      line: end === -1 ? undefined : bytes.toString("latin1", begin + 1, end),
      torn: bytes.toString("latin1", end + 1),
    };
  }
}
