import { describe, expect, test } from "vitest";
import { compileMapping } from "../../../src/intake/mapping/compile-mapping.ts";
import { mapRecord } from "../../../src/intake/mapping/map-record.ts";
import type { CrmRecord } from "../../../src/intake/mapping/mapping.ts";
import { readMappingFile } from "../../../src/intake/mapping/read-mapping-file.ts";
import { mapByModule } from "../../../src/intake/mapping/map-by-module.ts";

const MAPPING = compileMapping(
  readMappingFile(
    `version: 1
tables:
  stages: { customer: Client, lead: Prospect, unknown: null }
ignore: [deal]
objects:
  - object: contact
    when: $not(kind = "vendor")
    crmCode: '"c-" & id & "-" & region'
    fields:
      type: { from: type, default: Person }
      firstName: first
      lastName: { from: last, fallback: surname }
      email: { from: email, fallback: 'emails[0]' }
      relationshipStatus: { from: stage, table: stages, default: Contact }
      phoneNumber: { from: phone, country: CH }
      countryOfResidence: country
      nationality: nat
      wealthSource: sources
      taxIdentificationNumber: { from: tin, required: true }
      vatNumber: vat
      name: name
      city: $substring(city, $number(n))
`,
    "m.yaml",
  ),
);

const LEAVING = `version: 1
objects:
  - object: contact
    when: is_client
    onLeave: terminate
    crmCode: id
    fields: { type: { value: Person }, firstName: first, lastName: last }
`;

const contextOf = (object = "contact", type = "crm.record.updated") => ({
  type,
  object,
  source: "/x",
  recordId: "7",
  subject: `${object}/7`,
});

const GOOD = { id: 7, region: "LU", first: "Ada", last: "Muster", tin: "1" };

const map = (record: CrmRecord | undefined, context = contextOf()) =>
  mapRecord(MAPPING, context, record, { explain: true });

describe("a record", () => {
  test("becomes a payload with a composed name", async () => {
    expect(await map(GOOD)).toEqual({
      kind: "mapped",
      crmCode: "c-7-LU",
      candidate: {
        type: "Person",
        firstName: "Ada",
        lastName: "Muster",
        name: "Ada Muster",
        relationshipStatus: "Contact",
        taxIdentificationNumber: "1",
        crmCode: "c-7-LU",
      },
      warnings: [],
    });
  });

  test("each value that cannot be sent has one warning, and the rest is sent", async () => {
    const mapped = await map({
      ...GOOD,
      email: "a+b@x.com",
      emails: ["ada@x.com"],
      stage: "new",
      nat: "Atlantis",
      sources: "Gold;Inheritance",
      phone: "12",
      vat: "LU1",
      city: "x",
      n: "y",
    });
    expect(mapped).toMatchObject({
      candidate: {
        email: "ada@x.com",
        relationshipStatus: "Contact",
        phoneNumber: "12",
        wealthSource: ["inheritance"],
      },
    });
    const warnings = mapped.kind === "mapped" ? mapped.warnings : [];
    expect(
      warnings.map(({ field, reason, value }) => `${field} ${reason} ${value}`).sort(),
    ).toEqual([
      'city expression_failed at character 25: Unable to cast value to a number: "y"',
      "email not_accepted a+b@x.com",
      "nationality not_understood Atlantis",
      "phoneNumber kept_as_is 12",
      "relationshipStatus not_in_table new",
      "vatNumber unknown_field LU1",
      "wealthSource not_in_list Gold",
    ]);
  });

  test("warnings contain values only with `explain`", async () => {
    const mapped = await mapRecord(MAPPING, contextOf(), { ...GOOD, nat: "Atlantis" });
    expect(mapped).toMatchObject({
      warnings: [{ field: "nationality", reason: "not_understood" }],
    });
    expect(JSON.stringify(mapped)).not.toContain("Atlantis");
  });

  test("the reason of a failed expression contains nothing of the record without `explain`", async () => {
    const mapped = await mapRecord(MAPPING, contextOf(), { ...GOOD, city: "x", n: "secret" });
    expect(mapped).toMatchObject({ warnings: [{ field: "city", reason: "expression_failed" }] });
    expect(JSON.stringify(mapped)).not.toContain("secret");
  });

  test("a boolean is not a telephone number", async () => {
    const mapped = await map({ ...GOOD, phone: false });
    expect(mapped).toMatchObject({
      kind: "mapped",
      warnings: [{ field: "phoneNumber", reason: "not_understood", value: "false" }],
    });
    expect(mapped.kind === "mapped" && mapped.candidate).not.toHaveProperty("phoneNumber");
  });

  test("a table's null is no value: the default is used, without a warning", async () => {
    expect(await map({ ...GOOD, stage: "Unknown" })).toMatchObject({
      candidate: { relationshipStatus: "Contact" },
      warnings: [],
    });
  });

  test("null counts as missing, in every expression", async () => {
    const mapped = await mapRecord(
      compileMapping(
        readMappingFile(
          `version: 1
objects:
  - object: contact
    when: $not($exists(deletedAt))
    crmCode: '"c-" & id'
    fields:
      type: { value: Person }
      firstName: first
      lastName: last
      address: street & " " & number
      city: $join([city, town], ", ")
      postalCode: $replace(zip, /\\s/, "")
      email: emails[0]
`,
          "n.yaml",
        ),
      ),
      contextOf(),
      {
        ...GOOD,
        deletedAt: null,
        street: "Main",
        number: null,
        city: null,
        town: "Remich",
        zip: null,
        emails: [null, "ada@x.com"],
      },
      { explain: true },
    );
    expect(mapped).toMatchObject({
      kind: "mapped",
      candidate: { address: "Main", city: "Remich", email: "ada@x.com" },
      warnings: [],
    });
    expect(mapped.kind === "mapped" && mapped.candidate).not.toHaveProperty("postalCode");
  });

  test("its country is used for telephone numbers without a prefix", async () => {
    const phone = { phone: "621 555 014" };
    expect(await map({ ...GOOD, ...phone, country: "Luxembourg" })).toMatchObject({
      candidate: { phoneNumber: "+352621555014", countryOfResidence: "LU" },
    });
    expect(await map({ ...GOOD, phone: "044 555 01 33" })).toMatchObject({
      candidate: { phoneNumber: "+41445550133" },
    });
  });

  test.for([
    [{ last: "" }, "lastName", "is required"],
    [{ last: { a: 1 } }, "lastName", "is required: the value cannot be converted"],
    [{ tin: null }, "taxIdentificationNumber", "is required"],
    [{ type: "Robot" }, "type", "none"],
  ])("without a required value it becomes a dead letter: %j", async ([change, field]) => {
    const mapped = await map({ ...GOOD, ...(change as object) });
    if (field === "type") {
      // The default replaces an unknown type, with a warning.
      expect(mapped).toMatchObject({
        kind: "mapped",
        warnings: [{ field: "type", value: "Robot" }],
      });
    } else {
      expect(mapped).toMatchObject({ kind: "unmappable", problems: [{ field }] });
    }
  });

  test.for([{ id: undefined }, { id: null }, { id: "" }, { region: undefined }, { region: " " }])(
    "a key with a missing part makes a dead letter: %j",
    async (change) => {
      const mapped = await map({ ...GOOD, ...change });
      expect(mapped).toMatchObject({ kind: "unmappable", problems: [{ field: "crmCode" }] });
    },
  );

  test("a key that cannot stand in a path makes a dead letter", async () => {
    const mapped = await map({ ...GOOD, region: "x".repeat(100) });
    expect(mapped).toMatchObject({
      problems: [{ field: "crmCode", rule: "must have at most 100 characters" }],
    });
  });
});

describe("the choice of a rule", () => {
  test("ignores records that no rule matches and ignored objects; other objects make a dead letter", async () => {
    expect(await map({ ...GOOD, kind: "vendor" })).toMatchObject({
      kind: "ignored",
      reason: "when",
    });
    expect(await map(GOOD, contextOf("deal"))).toEqual({ kind: "ignored", reason: "object" });
    expect(await map(GOOD, contextOf("lead"))).toMatchObject({
      kind: "unmappable",
      problems: [{ field: "object", kind: "the object lead" }],
    });
    expect(await map(GOOD, contextOf("CONTACT"))).toMatchObject({ kind: "mapped" });
  });

  test("says when a condition is false only because a field is missing", async () => {
    const mapping = compileMapping(
      readMappingFile(LEAVING.replace("is_client", "$not(is_vendor)"), "m.yaml"),
    );
    expect(await mapRecord(mapping, contextOf(), GOOD)).toMatchObject({
      kind: "ignored",
      reason: "when_undecided",
    });
    expect(await mapRecord(mapping, contextOf(), { ...GOOD, is_vendor: true })).toMatchObject({
      kind: "ignored",
      reason: "when",
    });
  });

  test("a record that leaves names its relation, if its key can be made", async () => {
    const leaving = compileMapping(readMappingFile(LEAVING, "m.yaml"));
    const whens = expect.any(String) as string;
    const left = { kind: "ignored", reason: "when", whens };
    expect(await mapRecord(leaving, contextOf(), { ...GOOD, is_client: false })).toEqual({
      ...left,
      crmCode: "7",
      onLeave: "terminate",
    });
    expect(
      await mapRecord(leaving, contextOf(), { ...GOOD, id: undefined, is_client: false }),
    ).toEqual(left);
  });

  test("maps a deleted record even if no rule matches it", async () => {
    const deleted = contextOf("contact", "crm.record.deleted");
    const mapped = await map({ ...GOOD, kind: "vendor" }, deleted);
    expect(mapped).toMatchObject({ kind: "mapped", crmCode: "c-7-LU" });
    expect(await map(undefined, deleted)).toMatchObject({
      kind: "unmappable",
      problems: [{ field: "crmCode" }],
    });
  });
});

describe("a module", () => {
  const module = (record: CrmRecord | undefined) =>
    record?.["skip"] === true
      ? undefined
      : {
          crmCode: `m-${typeof record?.["id"] === "string" ? record["id"] : "7"}`,
          fields: { ...record },
        };

  test("gives fields that are converted like those of a file", async () => {
    const record = {
      type: "Person",
      firstName: " Ada ",
      lastName: "Muster",
      nationality: "Schweiz",
      email: "a+b@x.com",
      vatNumber: "1",
      color: "red",
    };
    expect(await mapByModule(module, contextOf(), record)).toEqual({
      kind: "mapped",
      crmCode: "m-7",
      candidate: {
        type: "Person",
        firstName: "Ada",
        lastName: "Muster",
        name: "Ada Muster",
        nationality: "CH",
        crmCode: "m-7",
      },
      warnings: [
        { field: "email", reason: "not_accepted", kind: "a string of 9 characters" },
        { field: "vatNumber", reason: "unknown_field", kind: "a string of 1 characters" },
        { field: "other", reason: "unknown_field", kind: "a string of 5 characters" },
      ],
    });
  });

  test("may throw, skip a record or give no key", async () => {
    expect(await mapByModule(module, contextOf(), { skip: true })).toEqual({
      kind: "ignored",
      reason: "module",
    });
    expect(
      await mapByModule(() => ({ crmCode: decodeURI("%"), fields: {} }), contextOf(), GOOD),
    ).toMatchObject({
      problems: [
        {
          rule: expect.stringMatching(
            /^must be one that the module can map; it threw URIError at map-record\.test\.ts.*:\d+$/,
          ) as unknown,
        },
      ],
    });
    const keyless = () => ({ crmCode: "..", fields: {} });
    expect(await mapByModule(keyless, contextOf(), GOOD)).toMatchObject({
      problems: [{ field: "crmCode" }],
    });
    expect(await mapByModule(module, contextOf(), undefined)).toMatchObject({ crmCode: "m-7" });
    const keyOnly = () => ({ crmCode: "k" });
    expect(await mapByModule(keyOnly, contextOf(), undefined)).toMatchObject({ kind: "mapped" });
    expect(await mapByModule(keyOnly, contextOf(), GOOD)).toMatchObject({
      problems: [{ field: "type" }],
    });
    const nothing = JSON.parse("null") as undefined;
    expect(await mapByModule(() => nothing, contextOf(), GOOD)).toEqual({
      kind: "ignored",
      reason: "module",
    });
  });

  test("may return what is no JSON", async () => {
    const cyclic: unknown[] = [];
    cyclic.push({ cyclic });
    let deep: unknown[] = [];
    for (let level = 0; level < 100_000; level += 1) deep = [deep];
    const fields = {
      type: "Person",
      firstName: "Ada",
      lastName: "Muster",
      taxIdentificationNumber: 9007199254740993123n,
      address: cyclic,
      city: deep,
      maidenName: Symbol("x"),
      placeOfBirth: () => "x",
    };
    const odd = await mapByModule(() => ({ crmCode: "k", fields }), contextOf(), GOOD, {
      explain: true,
    });
    expect(odd).toMatchObject({
      candidate: { taxIdentificationNumber: "9007199254740993123" },
      warnings: ["maidenName", "placeOfBirth", "address", "city"].map((field) => ({
        field,
        reason: "not_understood",
      })),
    });
    const thrower = {
      get crmCode(): string {
        throw new RangeError("of Ada");
      },
    };
    const thrown = await mapByModule(() => thrower, contextOf(), GOOD);
    expect(thrown).toMatchObject({ kind: "unmappable" });
    expect(JSON.stringify(thrown)).toContain("it threw RangeError at map-record.test.ts");
    expect(JSON.stringify(thrown)).not.toContain("of Ada");
  });
});

describe("the owner of a record", () => {
  const owned = compileMapping(
    readMappingFile(
      `version: 1
objects:
  - object: contact
    crmCode: $string(id) & "-" & region
    owner: by
    fields: { type: { value: Person }, firstName: first, lastName: last }
`,
      "m.yaml",
    ),
  );
  const ownerOf = async (record: CrmRecord | undefined) => {
    const mapped = await mapRecord(owned, contextOf(), record);
    return [mapped.kind, mapped.kind === "ignored" ? undefined : mapped.owner];
  };

  test.each([
    ["u-12", "u-12"],
    [15_550_121, "15550121"],
    [" ada@example.com ", "ada@example.com"],
    ["x".repeat(201), undefined],
    [{ id: 1 }, undefined],
    ["", undefined],
    ["\ud800", undefined],
  ])("%j is told as %j, beside the payload", async (by, owner) => {
    expect(await ownerOf({ ...GOOD, by })).toEqual(["mapped", owner]);
  });

  test("is known too where the record cannot be mapped, and unknown without a record", async () => {
    expect(await ownerOf({ ...GOOD, last: "", by: "u-12" })).toEqual(["unmappable", "u-12"]);
    expect(await ownerOf({ ...GOOD, region: {}, by: "u-12" })).toEqual(["unmappable", "u-12"]);
    expect(await ownerOf(undefined)).toEqual(["unmappable", undefined]);
  });
});
