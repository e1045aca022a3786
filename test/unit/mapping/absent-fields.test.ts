import { describe, expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapByModule } from "../../../src/intake/mapping/map-by-module.ts";
import { mapEventRecord } from "../../../src/intake/mapping/map-event-record.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type {
  CrmRecord,
  EventContext,
  Mapping,
  MappingResult,
} from "../../../src/intake/mapping/mapping.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";

const COMPILED = compileMapping(
  readMappingFile(
    `version: 1
objects:
  - object: contact
    when: kind = "client"
    crmCode: '"c-" & $event.recordId'
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      email: properties.email
      city: 'town ? town : village'
      address: street & " " & number
      postalCode: { from: zip, fallback: plz }
      phoneNumber: phones[primary = true].value
      relationshipStatus: { from: stage, default: Prospect }
      language: { from: lang, table: { x: null } }
`,
    "m.yaml",
  ),
);

const contextOf = (more: Partial<EventContext> = {}): EventContext => ({
  type: "crm.record.updated",
  source: "/x",
  subject: "contact/7",
  object: "contact",
  recordId: "7",
  partial: true,
  ...more,
});

const BASE = { kind: "client", first: "Ada", last: "Muster" };
const EMPTY = {
  ...BASE,
  properties: { email: null },
  town: null,
  village: null,
  street: null,
  number: null,
  zip: null,
  plz: null,
  phones: null,
  stage: null,
  lang: null,
};

const mapping = {
  map: (context: EventContext, record: CrmRecord | undefined): Promise<MappingResult> =>
    mapRecord(COMPILED, context, record, { explain: true }),
} as unknown as Mapping;

const mapped = async (record: CrmRecord, more: Partial<EventContext> = {}) => {
  const result = await mapEventRecord(mapping, contextOf(more), record, new Map());
  if (result.kind !== "mapped") throw new Error(JSON.stringify(result));
  return result;
};

const without = (...names: string[]) =>
  Object.fromEntries(Object.entries(EMPTY).filter(([name]) => !names.includes(name)));

describe("of a record that may lack fields", () => {
  test("what is null is empty", async () => {
    const { candidate, notUnderstood, warnings } = await mapped(EMPTY);
    expect(candidate).not.toHaveProperty("email");
    expect([notUnderstood, warnings]).toEqual([undefined, []]);
  });

  test.for<[why: string, record: CrmRecord, field: string, names: string]>([
    ["a field", without("stage"), "relationshipStatus", "stage"],
    ["a field inside another", { ...EMPTY, properties: {} }, "email", "email"],
    ["the field around it", without("properties"), "email", "properties"],
    ["one of two alternatives", without("village"), "city", "village"],
    ["from or fallback", without("zip"), "postalCode", "zip"],
    ["a part of a text", { ...EMPTY, street: "Hauptstr.", number: undefined }, "address", "number"],
    ["a list", without("phones"), "phoneNumber", "phones"],
  ])("what is absent is kept: %s", async ([, record, field, names]) => {
    const given = JSON.parse(JSON.stringify(record)) as CrmRecord;
    const { notUnderstood, warnings } = await mapped(given);
    expect(notUnderstood).toEqual([field]);
    expect(warnings).toEqual([
      { field, reason: "not_carried", kind: `a record without ${names}`, value: names },
    ]);
  });

  test("an alternative that is there counts, and so does an item of a list", async () => {
    const record = { ...without("town", "zip"), village: "Remich", plz: "5401" };
    const phones = [{ value: "+352 621 555 014", primary: true }, { value: "1" }];
    const { candidate, notUnderstood } = await mapped({ ...record, phones });
    expect(candidate).toMatchObject({ city: "Remich", postalCode: "5401" });
    expect(candidate).toMatchObject({ phoneNumber: "+352621555014" });
    expect(notUnderstood).toBeUndefined();
  });

  test("a default is for a new relation only", async () => {
    const { candidate } = await mapped(without("stage"));
    expect(candidate).toMatchObject({ relationshipStatus: "Prospect" });
  });

  test("a required field that is absent makes a dead letter that names it", async () => {
    const result = await mapEventRecord(mapping, contextOf(), without("last"), new Map());
    const rule = expect.stringMatching(
      /^is required: the record came without .*\(last\)$/,
    ) as string;
    expect(result).toMatchObject({ problems: [{ field: "lastName", rule, kind: "nothing" }] });
  });

  test("a `when` that reads it decides nothing, but a deletion does not need it", async () => {
    const record = without("kind");
    const result = await mapEventRecord(mapping, contextOf(), record, new Map());
    const rule = expect.stringContaining("came without kind") as string;
    expect(result).toMatchObject({ kind: "unmappable", problems: [{ field: "when", rule }] });
    await expect(mapped(record, { type: "crm.record.deleted" })).resolves.toMatchObject({
      crmCode: "c-7",
    });
    const whole = await mapEventRecord(mapping, contextOf({ partial: false }), record, new Map());
    expect(whole.kind).toBe("ignored");
  });
});

test("of a whole record, what is absent is empty", async () => {
  const { notUnderstood, warnings } = await mapped(BASE, { partial: false });
  expect([notUnderstood, warnings]).toEqual([undefined, []]);
});

test("a module that reads an absent field of its `reads` keeps what it leaves out", async () => {
  const byModule = (record: CrmRecord | undefined) => ({
    crmCode: "1",
    fields: { type: "Trust", name: record?.["name"], email: record?.["mail"] },
  });
  const reads = ["name", "mail"];
  const run = (record: CrmRecord) => mapByModule(byModule, contextOf(), record, {}, reads);
  expect(await run({ name: "Blue", mail: null })).toMatchObject({ warnings: [] });
  const result = await run({ name: "Blue" });
  if (result.kind !== "mapped") throw new Error("it was not mapped");
  const fields = result.warnings.map(({ field }) => field);
  expect(fields).toContain("email");
  expect(fields).not.toContain("name");
  expect(fields).not.toContain("birthDate");
});

test("a payload that is not whole keeps what it lacks, but for the status", async () => {
  const record = { type: "Person", crmCode: "1", firstName: "A", lastName: "M", email: null };
  const run = (partial: boolean) =>
    mapEventRecord(businessRelationMapping, contextOf({ partial }), record, new Map());
  const result = await run(true);
  if (result.kind !== "mapped") throw new Error("it was not mapped");
  expect(result.notUnderstood).toEqual(expect.arrayContaining(["city", "birthDate"]));
  for (const field of ["email", "lastName", "relationStatus"]) {
    expect(result.notUnderstood).not.toContain(field);
  }
  expect(await run(false)).toMatchObject({ warnings: [] });
});

test("a list of several values that lacks one of them is kept where the tenant had it before", async () => {
  const notUnderstood = async (reason: "no_longer_listed" | "not_in_tenant_list") => {
    const warning = { field: "service", reason, kind: "a value", value: "silver" } as const;
    const candidate = { type: "Person", service: ["gold"] };
    const made = { kind: "mapped", crmCode: "7", candidate, warnings: [warning] };
    const map = async () => made;
    const given = { map } as unknown as Mapping;
    const result = await mapEventRecord(given, contextOf(), BASE, new Map());
    return result.kind === "mapped" ? result.notUnderstood : result;
  };
  expect(await notUnderstood("no_longer_listed")).toEqual(["service"]);
  expect(await notUnderstood("not_in_tenant_list")).toBeUndefined();
});
