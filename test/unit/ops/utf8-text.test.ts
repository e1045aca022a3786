import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { linesOfUtf8, textOfUtf8 } from "../../../src/base/utf8-text.ts";

const latin1 = (text: string) => Buffer.from(text, "latin1");

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const linesOf = (bytes: Buffer, size = 3) =>
  Array.fromAsync(linesOfUtf8(inPieces(bytes, size), "f"));

test.for([1, 2, 3, 100])("lines are the same in pieces of %i bytes", async (size) => {
  const text = "\ufeffZoë\r\n\n日本\u2028語\u0085 \rx\n𝒵 \ufffd";
  const lines = ["Zoë", "", "日本\u2028語\u0085 \rx", "𝒵 \ufffd"];
  expect(await linesOf(Buffer.from(text), size)).toEqual(lines);
  expect(await linesOf(Buffer.from(`${text}\n`), size)).toEqual(lines);
});

test("a text of nothing has no lines", async () => {
  expect(await linesOf(Buffer.of())).toEqual([]);
  expect(textOfUtf8(Buffer.of(), "f")).toBe("");
});

test("a text keeps everything but the byte order mark", () => {
  const text = "Zoë\r\n\n日本\u2028語\n";
  expect(textOfUtf8(Buffer.from(`\ufeff${text}`), "f")).toBe(text);
});

describe("bytes that are not UTF-8 are refused:", () => {
  test.for([
    ["Latin-1", latin1("a\nb\nZo\xeb\nc"), "f, line 3 is not UTF-8: save the file as UTF-8"],
    [
      "a character cut at the end",
      Buffer.from("a\nZoë").subarray(0, -1),
      "f, line 2 is not UTF-8: save the file as UTF-8",
    ],
    [
      "UTF-16 with a mark",
      Buffer.from("\ufeffab", "utf16le"),
      "f is not UTF-8, but probably UTF-16: save it as UTF-8",
    ],
    [
      "UTF-16 without one",
      Buffer.from("ab\n", "utf16le"),
      "f is not UTF-8, but probably UTF-16: save it as UTF-8",
    ],
    ["gzip", gzipSync("a\nb"), "f is compressed (gzip): decompress it first, with gunzip"],
  ] as const)("%s", async ([, bytes, message]) => {
    expect(() => textOfUtf8(bytes, "f")).toThrow(message);
    await expect(linesOf(bytes)).rejects.toThrow(message);
  });
});
