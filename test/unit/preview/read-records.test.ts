import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { previewOne, unknownService } from "../../../src/whole/preview/preview-one.ts";
import { readInputs } from "../../../src/whole/preview/read-records.ts";
import { tempDir } from "../../support/temp-dir.ts";

async function read(content: string | Buffer) {
  await using dir = await tempDir();
  const file = join(dir.path, "crm");
  await writeFile(file, content);
  const { inputs, unusable } = await readInputs(file, businessRelationMapping, {});
  return {
    records: inputs.map(({ record }) => record),
    unusable: unusable.map((text) => text.replace(file, "crm")),
  };
}

const CSV = "id;name\r\n1;Zoé\r\n;;\r\n2;Bob\r\n";
const BOTH = [
  { id: "1", name: "Zoé" },
  { id: "2", name: "Bob" },
];

test.each([
  ["UTF-8", Buffer.from(CSV)],
  ["Windows-1252", Buffer.from(CSV, "latin1")],
  ["UTF-16", Buffer.from(`\ufeff${CSV}`, "utf16le")],
  ["UTF-8 with the line ends of old Macs", Buffer.from(CSV.replaceAll("\n", ""))],
])("preview reads a CSV in %s, as a comparison does", async (_, content) => {
  expect(await read(content)).toEqual({ records: BOTH, unusable: [] });
});

test("a line that is not JSON keeps nobody from the others", async () => {
  const lines = ['{"id":"1","name":"Zoé"}', '{"id":', '{"id":"2","name":"Bob"}'];
  const { records, unusable } = await read(lines.join("\n"));
  expect(records).toEqual(BOTH);
  expect(unusable).toEqual([expect.stringMatching(/^crm, line 2 is not JSON/) as string]);
  await expect(read(lines.slice(1).join("\n"))).rejects.toThrow(
    /crm is not JSON at line 1, column \d+ \(/,
  );
});

test("a name of a column with brackets makes no JSON of a CSV", async () => {
  const { records } = await read("id;emails[0].value\n1;a@b.lu\n");
  expect(records).toEqual([
    { id: "1", "emails[0].value": "a@b.lu", emails: [{ value: "a@b.lu" }] },
  ]);
});

test.each(["[]", "1.23E+17", " 47", "４７１１"])(
  "preview refuses the id %j, as intake does",
  async (id) => {
    await using dir = await tempDir();
    const file = join(dir.path, "crm");
    const record = { id, type: "Person", crmCode: "c-1", firstName: "Ada", lastName: "Muster" };
    await writeFile(file, JSON.stringify(record));
    const { inputs } = await readInputs(file, businessRelationMapping, {});
    const [input] = inputs;
    expect(
      input && (await previewOne(input, businessRelationMapping, unknownService({}))),
    ).toMatchObject({ result: "dead letter", problems: [{ field: "id" }] });
  },
);
