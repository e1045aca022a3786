import { readdir, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { Reading } from "../../../src/intake/snapshot/item.ts";
import { readSnapshot } from "../../../src/intake/snapshot/read-snapshot.ts";
import { linesOf } from "../../../src/intake/snapshot/read-text.ts";
import { scanFile } from "../../../src/intake/snapshot/scan-file.ts";
import { tempDir } from "../../support/temp-dir.ts";

async function read(
  content: string | Buffer,
  reading: Reading = {},
): Promise<{ encoding: string; values: unknown[] }> {
  await using dir = await tempDir();
  const file = join(dir.path, "crm");
  await writeFile(file, content);
  const scan = await scanFile(file);
  const values: unknown[] = [];
  for await (const { value } of readSnapshot({ name: "crm", file, scan, reading }))
    values.push(value);
  return { encoding: scan.encoding, values };
}

const ADA = { id: "1", name: "Ada Müller" };
const BOB = { id: "2", name: 'Bob; Söhne, "AG"' };
const BOTH = [ADA, BOB];

const CSV = 'id;name\r\n1;Ada Müller\r\n2;"Bob; Söhne, ""AG"""\r\n';
const utf16be = (text: string) => Buffer.from(`\ufeff${text}`, "utf16le").swap16();

test.for([
  ["JSON lines", `${JSON.stringify(ADA)}\n${JSON.stringify(BOB)}\n`, "utf-8"],
  [
    "JSON lines without a last end",
    `${JSON.stringify(ADA)}\r\n\r\n${JSON.stringify(BOB)}`,
    "utf-8",
  ],
  ["a list", ` \n${JSON.stringify(BOTH)}\n`, "utf-8"],
  ["a list over many lines", JSON.stringify(BOTH, undefined, 2), "utf-8"],
  ["lists by lines", `[${JSON.stringify(ADA)}]\n[${JSON.stringify(BOB)}]\n`, "utf-8"],
  ["an API's answer", JSON.stringify({ results: BOTH, paging: {} }), "utf-8"],
  [
    "an answer of Twenty",
    JSON.stringify({ data: { people: BOTH }, pageInfo: { hasNextPage: false }, totalCount: 2 }),
    "utf-8",
  ],
  ["an API's answer over many lines", JSON.stringify({ records: BOTH }, undefined, 2), "utf-8"],
  [
    "pages of answers by lines",
    `{"data":[${JSON.stringify(ADA)}]}\n{"data":[${JSON.stringify(BOB)}]}\n`,
    "utf-8",
  ],
  ["CSV with semicolons", CSV, "utf-8"],
  ["CSV with a mark", `\ufeff${CSV}`, "utf-8"],
  ["CSV in UTF-16", Buffer.from(`\ufeff${CSV}`, "utf16le"), "utf-16le"],
  ["CSV in UTF-16, without a mark", Buffer.from(CSV, "utf16le"), "utf-16le"],
  ["CSV in UTF-16, big end first", utf16be(CSV), "utf-16be"],
  ["CSV in Windows-1252", Buffer.from(CSV, "latin1"), "windows-1252"],
  ["CSV with commas", 'id,name\n1,Ada Müller\n2,"Bob; Söhne, ""AG"""\n', "utf-8"],
  ["CSV with tabs", 'id\tname\n1\tAda Müller\n2\t"Bob; Söhne, ""AG"""\n', "utf-8"],
  [
    "CSV that names its delimiter",
    `sep=|\r\nid|name\r\n1|Ada Müller\r\n2|"Bob; Söhne, ""AG"""\r\n`,
    "utf-8",
  ],
  ["CSV after empty lines", `\r\n\r\n${CSV}`, "utf-8"],
  [
    "CSV with a delimiter at each end",
    'id;name;\n1;Ada Müller;\n2;"Bob; Söhne, ""AG""";\n',
    "utf-8",
  ],
] as const)("%s", async ([, content, encoding]) => {
  expect(await read(content)).toEqual({ encoding, values: BOTH });
});

test("An empty cell is no value, and a long number keeps its digits", async () => {
  expect((await read("id,name,city\n1,,Bonn\n")).values).toEqual([{ id: "1", city: "Bonn" }]);
  expect((await read('[{"id":1234567890123456789}]')).values).toEqual([
    { id: "1234567890123456789" },
  ]);
});

test("A column with points in its name is also found by the path of that name", async () => {
  const { values } = await read("id,a.b,a.c.d,x,x.y,Tel. 1,__proto__.z\n1,2,,4,5,6,7\n");
  expect(values).toEqual([
    {
      id: "1",
      "a.b": "2",
      a: { b: "2" },
      x: "4",
      "x.y": "5",
      "Tel. 1": "6",
      Tel: { " 1": "6" },
      "__proto__.z": "7",
    },
  ]);
  expect(Object.getPrototypeOf(values[0])).toBe(Object.prototype);
});

test("Items are split over pieces of the file", async () => {
  const many = Array.from({ length: 5000 }, (_, n) => ({ id: n, name: `"[{,\\ ${n}`.repeat(9) }));
  expect((await read(JSON.stringify(many))).values).toEqual(many);
  expect((await read(many.map((one) => JSON.stringify(one)).join("\n"))).values).toEqual(many);
});

test.for([
  ["nothing", "", /is empty/],
  ["only blanks", " \n\n", /is empty/],
  ["an empty list", "[]", /no record/],
  ["only names", "id,name\n", /no record/],
  [
    "lines that end early",
    `${JSON.stringify(ADA)}\n{"id":"2","na`,
    /cut off.* at line 2, column 14$/,
  ],
  [
    "a broken line",
    `{"id":\n${JSON.stringify(ADA)}`,
    /cut off, or is not JSON, at line 2, column \d+$/,
  ],
  [
    "a broken line in the middle",
    `${JSON.stringify(ADA)}\n{"id"\n${JSON.stringify(BOB)}`,
    /is not JSON, at line 2, column 6$/,
  ],
  ["a broken item", '[\n  {"id": 1},\n  {"id": 2,}\n]', /item 2 is not JSON at line 3, column 12$/],
  ["a broken document", '\n{\n"data": [\n\n{"id": x}]}', /is not JSON at line 5, column 8$/],
  ["a list that ends early", `[${JSON.stringify(ADA)},{"id":"2"`, /cut off/],
  ["a list without its last character", JSON.stringify(BOTH).slice(0, -1), /cut off/],
  ["lists of which the last ends early", `[${JSON.stringify(ADA)}]\n[{"id":"2"},`, /cut off/],
  ["an answer that ends early", JSON.stringify({ data: BOTH }).slice(0, -3), /cut off/],
  ["a row with too few columns", "id,name,city\n1,Ada,Bonn\n2,Bob\n", /row 3 .*columns/],
  ["a row with too few columns after empty lines", "\nid,name\n\n\n2\n", /row 5 .*columns/],
  ["a row with too many columns", "id,name\n1,Ada,Bonn\n", /row 2 .*columns/],
  ["a quote that does not end", 'id,name\n1,"Ada\n2,Bob\n', /does not end/],
  ["a value that is too long", `id,name\n1,"${"x".repeat(1_000_001)}"\n`, /value is too long/],
  ["a quote in a value without quotes", 'id,name\n1,Ada "A" M\n', /line 2 is not CSV .*doubled/],
  ["a value under no name", "id,name,\n1,Ada,Bonn\n", /no name: the columns are shifted/],
  ["two columns of one name", "id,name,name\n1,Ada,Bob\n", /two columns .* name/],
  ["a lost character in JSON lines", '{"id":1}\n{"id":2,"name":"Zo\\ufffd"}\n', /line 2 .*U\+FFFD/],
  ["a lost character in a list", '[{"id":1},{"name":"Zo\\uFFFD"}]', /item 2 .*U\+FFFD/],
  ["a lost character in a document", '{\n"data":[\n{"name":"Zo\\uFFFD"}]}', /U\+FFFD/],
  ["a lost character", "id,name\n1,Ada M\ufffdller\n", /line 2 .*U\+FFFD/],
  [
    "a character that ends early",
    Buffer.from("id,näme\n1,Ü").subarray(0, -1),
    /middle of a character/,
  ],
  [
    "two encodings",
    Buffer.concat([Buffer.from("id,näme,ö,ü\n"), Buffer.from("1,ü", "latin1")]),
    /\(line 1\) and partly not \(line 2\).*several encodings/,
  ],
  [
    "two encodings, of each as much",
    Buffer.concat([Buffer.from("id,name\n1,Zoé\n"), Buffer.from("2,Zoé\n", "latin1")]),
    /\(line 2\) and partly not \(line 3\)/,
  ],
  [
    "a title above the names",
    "Contacts;;\nid;name;city\n1;Ada;Bonn\n",
    /first row is a title .give --skip-rows 1/,
  ],
  [
    "half a character in UTF-16",
    Buffer.from("\ufeffid,name\n1,A", "utf16le").subarray(0, -1),
    /middle of a character/,
  ],
  [
    "an answer of an API without a list",
    JSON.stringify({ id: 3, error: "forbidden" }, undefined, 2),
    /is one object without a list of records: this is an answer of an API/,
  ],
  [
    "a list under a name of its own",
    JSON.stringify({ contacts: BOTH, total: 2 }, undefined, 2),
    /--records contacts/,
  ],
  [
    "a comment above the names",
    "# made today\nid,name\n1,Ada\n",
    /row 1 begins with #.*--skip-rows 1$/,
  ],
  ["an index without a name", ",id\n0,1\n", /column 1, which has no name.*--skip-columns 1/],
  ["a footer", "id;name\n1;Ada\nGenerated by Ada\n", /row 3 .*--skip-rows 3$/],
  ["a page of HTML", "<html>", /XML or HTML/],
  ["an Excel workbook", Buffer.from("504b030414000600c3bc", "hex"), /Excel workbook/],
  ["a compressed CSV", gzipSync(CSV), /unpack it/],
] as const)("%s is a mistake with a clear message", async ([, content, message]) => {
  await expect(read(content)).rejects.toThrow(message);
});

const JSON_RPC = JSON.stringify({ jsonrpc: "2.0", result: BOTH });
const PAGE = JSON.stringify({ data: BOTH, meta: { matches: 60 } });

test.for([
  ["a page", PAGE],
  ["one page on each line", `${PAGE}\n${PAGE}`],
  ["a page that says that it is the last", JSON.stringify({ results: BOTH, has_more: false })],
  ["an error", JSON.stringify({ id: 1, error: "forbidden" })],
  ["a list under a name of its own", JSON_RPC],
] as const)("%s is not known to be the whole", async ([, content]) => {
  await expect(read(content, { mustBeWhole: true })).rejects.toThrow(
    /give --whole|is one object without a list/,
  );
});

test.for([
  ["a list", JSON.stringify(BOTH)],
  ["JSON lines", BOTH.map((one) => JSON.stringify(one)).join("\n")],
  ["CSV", CSV],
] as const)("%s is the whole", async ([, content]) => {
  expect((await read(content, { mustBeWhole: true })).values).toEqual(BOTH);
});

test("a person says where the list is", async () => {
  expect((await read(JSON_RPC, { records: "result" })).values).toEqual(BOTH);
  const nested = JSON.stringify({ a: { b: BOTH }, data: [] }, undefined, 2);
  expect((await read(nested, { records: "a.b" })).values).toEqual(BOTH);
  await expect(read(nested, { records: "a.c" })).rejects.toThrow(/no list at a.c/);
});

test("rows and columns that a person names are left out", async () => {
  const text = "# made today\n,id,name\n0,1,Ada Müller\n,int,text\n1,2,Bob\nTotal 2\nEnd\n";
  const { values } = await read(text, { skipRows: [1, 4, -2, -1], skipColumns: [1] });
  expect(values).toEqual([ADA, { id: "2", name: "Bob" }]);
});

test.each([
  ["windows-1250", "id,name\n1,\x8a\xebva\x9d\n", "Šëvať"],
  ["iso-8859-15", "id,name\n1,\xa4\n", "€"],
  ["macintosh", "id,name\n1,Zo\x8e\n", "Zoé"],
] as const)("a file in %s is read as its user names it", async (encoding, bytes, name) => {
  await using dir = await tempDir();
  const file = join(dir.path, "crm");
  await writeFile(file, Buffer.from(bytes, "latin1"));
  const scan = await scanFile(file, "crm", encoding);
  const [item] = await Array.fromAsync(readSnapshot({ name: "crm", file, scan }));
  expect(item?.value).toEqual({ id: "1", name });
});

async function readRows(text: string): Promise<{ values: unknown[]; skipped: number }> {
  await using dir = await tempDir();
  const file = join(dir.path, "crm");
  await writeFile(file, text);
  let skipped = 0;
  const onSkipped = () => (skipped += 1);
  const scan = await scanFile(file);
  const items = await Array.fromAsync(readSnapshot({ name: "crm", file, scan, onSkipped }));
  return { values: items.map(({ value }) => value), skipped };
}

test.each([
  ["the names once more, after a byte order mark", "\ufeffid;name;city", 1],
  ["dashes below the names", "---;----;----", 1],
  ["delimiters alone, and an empty line", "\n;;", 1],
])("%s is no record", async (_, rows, skipped) => {
  expect(await readRows(`id;name;city\n1;Ada;Bonn\r\n${rows}\n`)).toEqual({
    values: [{ id: "1", name: "Ada", city: "Bonn" }],
    skipped,
  });
});

test("a row that is called as a sum is a record, and so is one with nothing but its id", async () => {
  const { values, skipped } = await readRows(
    "id;name;city\n1;;\nTotal;Ada;Bonn\n2;;\nSoma;4711;\nTotale;2;\n",
  );
  expect(values).toHaveLength(5);
  expect(skipped).toBe(0);
});

test("a backslash before the letters of an escape is no lost character", async () => {
  const value = { id: 1, name: String.raw`C:\ufffd` };
  expect(await read(JSON.stringify(value))).toMatchObject({ values: [value] });
});

test("a file is closed also if its reader stops in its first piece", async () => {
  await using dir = await tempDir();
  const file = join(dir.path, "crm");
  await writeFile(file, JSON.stringify(BOTH));
  for await (const _ of readSnapshot({ name: "crm", file, scan: await scanFile(file) })) break;
  const open = await Promise.all(
    (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")),
  );
  expect(open).not.toContain(file);
});

test("No message quotes a value", async () => {
  await expect(read('id,name\n1,"Zacharias"x\n')).rejects.not.toThrow(/Zacharias/);
  await expect(read('id,name\n1,Zacharias "x"\n')).rejects.not.toThrow(/Zacharias/);
  await expect(read('{"name":"Zacharias"}\n{"name":"Zach')).rejects.not.toThrow(/Zach/);
});

test("a line that is too long to be read as a whole is named", async () => {
  async function* texts(pieces: number): AsyncGenerator<string> {
    yield "first\r\n";
    for (let n = 0; n < pieces; n += 1) yield "x".repeat(2 ** 18);
    yield "\nlast";
  }
  const lengths: number[] = [];
  for await (const line of linesOf(texts(3), "crm")) lengths.push(line.length);
  expect(lengths).toEqual([5, 3 * 2 ** 18, 4]);
  await expect(Array.fromAsync(linesOf(texts(2 ** 10 + 1), "crm"))).rejects.toThrow(
    /^crm, line 2 is longer than 268435456 characters/,
  );
});

test("columns that are paths make objects and lists, of a size that a record can have", async () => {
  const header = ["address.city", "emails[0].value", "emails[1].value", "tags.0", "x[4000000]"];
  const { values } = await read(`id,${header.join()}\n1,Trier,a@b.lu,c@d.lu,vip,y\n`);
  expect(values).toEqual([
    expect.objectContaining({
      address: { city: "Trier" },
      emails: [{ value: "a@b.lu" }, { value: "c@d.lu" }],
      tags: ["vip"],
      "x[4000000]": "y",
    }),
  ]);
  expect(Object.keys(values[0] as object)).not.toContain("x");
});
