import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import { WARNING_REASONS, type CrmRecord } from "../../../src/intake/mapping/mapping.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import type { MapRecord } from "../../../src/intake/mapping/map-module.ts";
import { mapByModule } from "../../../src/intake/mapping/map-by-module.ts";
import { mapRecord as example } from "../../../examples/mapping.ts";
import { spawnCommand } from "../../support/process.ts";
import { tempDir } from "../../support/temp-dir.ts";

const ROOT = join(import.meta.dirname, "../../..");
const GUIDE = readFileSync(join(ROOT, "docs/mapping.md"), "utf8");

const block = (language: string): string =>
  new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(GUIDE)?.[1] ?? "";

const event = {
  type: "crm.record.updated",
  source: "/acme",
  subject: "contact/4711",
  object: "contact",
  recordId: "4711",
};

test("the guide's example gives the payload and warnings that it shows", async () => {
  const mapping = compileMapping(readMappingFile(block("yaml"), "guide.yaml"));
  const record = JSON.parse(block("json")) as CrmRecord;
  const mapped = await mapRecord(mapping, event, record, { explain: true });
  if (mapped.kind !== "mapped") throw new Error(JSON.stringify(mapped));
  const shown = GUIDE.slice(GUIDE.indexOf("contact/4711  passes"));
  for (const [field, value] of Object.entries(mapped.candidate ?? {})) {
    expect(shown.replaceAll(/ +/g, " ")).toContain(
      field === "crmCode" ? `crmCode ${String(value)}` : `${field} ${JSON.stringify(value)}`,
    );
  }
  for (const { field, reason, value } of mapped.warnings) {
    expect(shown).toContain(`! ${field}: ${WARNING_REASONS[reason]}: ${value}`);
  }
  expect(mapped.warnings).toHaveLength(2);
});

test.for([
  [{ first_name: "Ada", last_name: "Muster" }, ["Ada", "Muster", "Ada Muster"]],
  [{ first_name: "Sukarno", last_name: "" }, ["FNU", "Sukarno", "Sukarno"]],
  [{ first_name: null, last_name: "Sukarno" }, ["FNU", "Sukarno", "Sukarno"]],
  [{ last_name: "Sukarno" }, ["FNU", "Sukarno", "Sukarno"]],
] as const)("the guide's recipe for one name: %j", async ([record, names]) => {
  const [, recipe = ""] = /A person with one name[^]*?```yaml\n([^]*?)```/.exec(GUIDE) ?? [];
  const rule = `  - object: contact\n    crmCode: $event.recordId\n    fields:\n      type: { value: Person }`;
  const file = readMappingFile(`version: 1\nobjects:\n${rule}\n${recipe}`, "recipe.yaml");
  const mapped = await mapRecord(compileMapping(file), event, record);
  const { firstName, lastName, name } = mapped.kind === "mapped" ? (mapped.candidate ?? {}) : {};
  expect([firstName, lastName, name]).toEqual(names);
  expect(await mapRecord(compileMapping(file), event, {})).not.toMatchObject({
    candidate: { lastName: expect.anything() as unknown },
  });
});

test("the guide lists every reason of a warning", () => {
  for (const reason of Object.keys(WARNING_REASONS)) expect(GUIDE).toContain(`\`${reason}\``);
});

test("an editor underlines a field that the service does not have, in the guide's module and in the example", async () => {
  const modules = {
    guide: block("ts"),
    example: readFileSync(join(ROOT, "examples/mapping.ts"), "utf8"),
  };
  for (const [name, module] of Object.entries(modules)) {
    expect(await typeErrors(module), name).toBe("");
    const misspelt = module.replace(/\bfirstName(,\s+lastName)/, "firstname: firstName$1");
    expect(await typeErrors(misspelt), name).toContain("'firstname' does not exist");
  }
});

async function typeErrors(module: string): Promise<string> {
  await using dir = await tempDir();
  const file = join(dir.path, "mapping.mts");
  await writeFile(file, module);
  const compilerOptions = {
    noEmit: true,
    paths: { crmsync: [join(ROOT, "src/intake/mapping/map-module.ts")] },
    types: [],
  };
  const project = join(dir.path, "tsconfig.json");
  const config = { extends: join(ROOT, "tsconfig.json"), compilerOptions, files: [file] };
  await writeFile(project, JSON.stringify({ ...config, include: [] }));
  await using tsc = spawnCommand(join(ROOT, "node_modules/.bin/tsc"), ["-p", project]);
  await tsc.ended;
  return [...tsc.stdout, ...tsc.stderr].join("\n");
}

test("the example module maps", async () => {
  const mapping = example as MapRecord;
  const person = { fullName: "Muster, Ada", country: "Schweiz", born: "31.12.1966" };
  expect(await mapByModule(mapping, event, person)).toMatchObject({
    crmCode: "acme-4711",
    candidate: {
      firstName: "Ada",
      lastName: "Muster",
      countryOfResidence: "CH",
      birthDate: "1966-12-31",
    },
  });
  expect(await mapByModule(mapping, event, { internal: true })).toEqual({
    kind: "ignored",
    reason: "module",
  });
});
