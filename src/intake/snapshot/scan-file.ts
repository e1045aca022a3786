/** One pass over a snapshot's bytes: its hash, and in which encoding it was saved. */
import { createHash } from "node:crypto";
import { UserError } from "../../base/user-error.ts";
import { open } from "node:fs/promises";

/** What is recognised, and what a user may name besides: single bytes of other regions and machines. */
export const ENCODINGS = [
  "utf-8",
  "utf-16le",
  "utf-16be",
  "windows-1252",
  "windows-1250",
  "iso-8859-2",
  "iso-8859-15",
  "macintosh",
] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** Why a file is read in this encoding, if the user did not name one. */
const READ_SO: Readonly<Partial<Record<Encoding, string>>> = {
  "windows-1252": ", because it is not UTF-8: if names look wrong, give --encoding",
};

export const readAs = (encoding: Encoding): string =>
  `read as ${encoding}${READ_SO[encoding] ?? ""}`;

export interface Scan {
  /** SHA-256 of all bytes. */
  readonly hash: string;
  readonly bytes: number;
  readonly encoding: Encoding;
}

/** UTF-16 without a mark is recognised by the zero bytes of its first characters. */
const SAMPLE_BYTES = 4096;

/** The first bytes of other kinds of files, in hex, and what these files are. */
const OTHER_FILES: readonly (readonly [start: string, what: string])[] = [
  ["504b0304", "an Excel workbook or a ZIP file: export it as CSV or JSON"],
  ["d0cf11e0", "an Excel workbook: export it as CSV or JSON"],
  ["1f8b", "compressed (gzip): unpack it"],
];

const NEW_LINE = 0x0a;

/** Bytes to which Windows-1252 gives no character. */
const NOT_IN_1252 = new Set([0x81, 0x8d, 0x8f, 0x90, 0x9d]);

/**
 * @param name as people know it, if it is not the file's own.
 * @param encoding as its sender names it; undefined: it is found out
 * @throws UserError when the file cannot be read, is empty, cut off, not text, or of no known encoding.
 */
export async function scanFile(
  file: string,
  name: string = file,
  encoding?: Encoding,
): Promise<Scan> {
  const hash = createHash("sha256");
  const utf8 = new Utf8Check();
  let bytes = 0;
  let start = Buffer.alloc(0);
  try {
    for await (const chunk of readChunks(file)) {
      hash.update(chunk);
      utf8.add(chunk);
      bytes += chunk.length;
      if (start.length < SAMPLE_BYTES) {
        start = Buffer.concat([start, chunk.subarray(0, SAMPLE_BYTES - start.length)]);
      }
    }
  } catch (error) {
    throw new UserError(`${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? ""})`);
  }
  if (bytes === 0) throw new UserError(`${name} is empty: there is nothing to compare`);
  const other = OTHER_FILES.find(([begins]) => start.toString("hex").startsWith(begins));
  if (other !== undefined) throw new UserError(`${name} is ${other[1]}`);
  const found = encoding ?? encodingOf(name, start, bytes, utf8);
  return { hash: hash.digest("hex"), bytes, encoding: found };
}

function encodingOf(name: string, start: Buffer, bytes: number, utf8: Utf8Check): Encoding {
  const utf16 = utf16In(start);
  if (utf16 !== undefined) {
    if (bytes % 2 === 0) return utf16;
    throw new UserError(`${name} ends in the middle of a character: it is cut off`);
  }
  const hasMark = start.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]));
  if (utf8.invalid === 0 && !utf8.isCut) return "utf-8";
  if (utf8.invalid === 0 && (utf8.valid > 0 || hasMark)) {
    throw new UserError(`${name} ends in the middle of a character: it is cut off`);
  }
  if (!hasMark && utf8.valid === 0 && !utf8.hasUndefined) return "windows-1252";
  throw new UserError(
    `${name} is partly UTF-8 (line ${utf8.validLine}) and partly not (line ${utf8.invalidLine}): it was put together from several encodings; export it again as UTF-8. If it is of one encoding all the same, give --encoding`,
  );
}

function utf16In(start: Buffer): Encoding | undefined {
  if (start[0] === 0xff && start[1] === 0xfe) return "utf-16le";
  if (start[0] === 0xfe && start[1] === 0xff) return "utf-16be";
  const zeros = [0, 0] as [number, number];
  for (const [index, byte] of start.entries()) if (byte === 0) zeros[(index % 2) as 0 | 1] += 1;
  const many = start.length / 4;
  if (zeros[1] > many && zeros[0] === 0) return "utf-16le";
  if (zeros[0] > many && zeros[1] === 0) return "utf-16be";
  return undefined;
}

/** Counts the characters beyond ASCII that are UTF-8, and the bytes that are not. */
class Utf8Check {
  valid = 0;
  invalid = 0;
  hasUndefined = false;
  /** Where the first of each is. */
  validLine = 0;
  invalidLine = 0;
  #line = 1;
  /** Bytes that the present character still needs. */
  #missing = 0;

  /** Whether the last character is not complete. */
  get isCut(): boolean {
    return this.#missing > 0;
  }

  add(chunk: Buffer): void {
    for (const byte of chunk) {
      if (byte >= 0x80 || this.#missing > 0) this.#addByte(byte);
      if (byte === NEW_LINE) this.#line += 1;
    }
  }

  #addByte(byte: number): void {
    if (NOT_IN_1252.has(byte)) this.hasUndefined = true;
    if (this.#missing > 0) {
      if ((byte & 0xc0) === 0x80) {
        this.#missing -= 1;
        if (this.#missing > 0) return;
        this.valid += 1;
        if (this.valid === 1) this.validLine = this.#line;
        return;
      }
      this.#addInvalid();
      this.#missing = 0;
    }
    if (byte < 0x80) return;
    this.#missing = byte >= 0xc2 && byte <= 0xf4 ? (byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3) : 0;
    if (this.#missing === 0) this.#addInvalid();
  }

  #addInvalid(): void {
    this.invalid += 1;
    if (this.invalid === 1) this.invalidLine = this.#line;
  }
}

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
