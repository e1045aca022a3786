/** Text of a file that a user names. Bytes that are not UTF-8 are refused, never replaced. */
import { isUtf8 } from "node:buffer";
import { UserError } from "./user-error.ts";

const NEWLINE = 0x0a;
const GZIP = [0x1f, 0x8b];
const UTF_16 = [
  [0xff, 0xfe],
  [0xfe, 0xff],
];

/**
 * The text of these bytes, without a byte order mark.
 * @param name of the file, for the message.
 * @throws UserError that names the first line that is not UTF-8.
 */
export function textOfUtf8(bytes: Buffer, name: string): string {
  return [...linesOfBytes(bytes)]
    .map((line, index) => textOfLine(line, index + 1, name))
    .join("\n");
}

/** The lines of UTF-8, without their ends and without a byte order mark. @throws UserError like `textOfUtf8`. */
export async function* linesOfUtf8(
  chunks: AsyncIterable<Buffer>,
  name: string,
): AsyncGenerator<string> {
  let number = 0;
  let rest: Buffer[] = [];
  for await (const chunk of chunks) {
    const [first, ...others] = linesOfBytes(chunk);
    rest.push(first!);
    for (const next of others) {
      number += 1;
      yield withoutEnd(textOfLine(Buffer.concat(rest), number, name));
      rest = [next];
    }
  }
  const last = Buffer.concat(rest);
  if (last.length > 0) yield withoutEnd(textOfLine(last, number + 1, name));
}

const withoutEnd = (line: string): string => (line.endsWith("\r") ? line.slice(0, -1) : line);

/** At least one; the last one may be empty. */
function* linesOfBytes(bytes: Buffer): Generator<Buffer> {
  let from = 0;
  for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, from)) {
    yield bytes.subarray(from, end);
    from = end + 1;
  }
  yield bytes.subarray(from);
}

function textOfLine(line: Buffer, number: number, name: string): string {
  if (number === 1) {
    if (beginsWith(line, GZIP)) {
      throw new UserError(`${name} is compressed (gzip): decompress it first, with gunzip`);
    }
    if (UTF_16.some((mark) => beginsWith(line, mark)) || line.includes(0)) {
      throw new UserError(`${name} is not UTF-8, but probably UTF-16: save it as UTF-8`);
    }
  }
  if (!isUtf8(line)) {
    throw new UserError(`${name}, line ${number} is not UTF-8: save the file as UTF-8`);
  }
  const text = line.toString("utf8");
  return number === 1 ? text.replace(/^\ufeff/, "") : text;
}

const beginsWith = (bytes: Buffer, start: readonly number[]): boolean =>
  start.every((byte, index) => bytes[index] === byte);
