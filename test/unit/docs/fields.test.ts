import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { describeField, summaryOf } from "../../../deploy/describe-field.ts";
import { fieldsReference } from "../../../deploy/fields-reference.ts";
import { mappingJsonSchema } from "../../../deploy/mapping-schema.ts";
import { FIELD_NAMES } from "../../../src/intake/mapping/fields.ts";
import { FIELDS_OF } from "../../../src/core/service-spec/business-relation.ts";
import { DEFAULT_TENANT_LISTS } from "../../../src/core/service-spec/tenant-lists.ts";
import { validatePayload } from "../../../src/core/sync/validate.ts";

it("docs/fields.md is up to date (node deploy/generate.ts)", () => {
  const file = join(import.meta.dirname, "../../../docs/fields.md");
  expect(readFileSync(file, "utf8")).toBe(fieldsReference());
});

const LEAST = {
  Person: { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" },
  Company: { type: "Fund", crmCode: "1", name: "Blue" },
};

const VALUES: Readonly<Record<string, unknown>> = {
  text: "?\u0000",
  "list of texts": ["?"],
  "true or false": "?",
};

it.for(["Person", "Company"] as const)(
  "each field of a %s is described as the service validates it",
  (variant) => {
    for (const name of FIELDS_OF[variant]) {
      const { of, type, rule, values, ifAbsent } = describeField(name);
      const { [name]: _, ...without } = LEAST[variant] as Record<string, unknown>;
      const absent = validatePayload(without, DEFAULT_TENANT_LISTS);
      expect(absent.ok, name).toBe(of[variant] === "optional");
      if (absent.ok && name in absent.payload)
        expect(new Map(Object.entries(absent.payload)).get(name)).toBe(ifAbsent);
      const wrong = validatePayload(
        { ...LEAST[variant], [name]: VALUES[type] },
        DEFAULT_TENANT_LISTS,
      );
      const hasRule = rule !== undefined || values !== undefined || type === "true or false";
      expect(wrong.ok, name).toBe(!hasRule);
      if (!wrong.ok && rule !== undefined) expect(rule).toContain(wrong.problems[0]?.rule);
    }
  },
);

it("the schema of mapping files describes every field and every key", () => {
  const { properties } = mappingJsonSchema() as {
    properties: Record<string, { description?: string; items: { properties: object } }>;
  };
  const rule = properties["objects"]?.items.properties as Record<
    string,
    { description?: string; properties: Record<string, { description?: string }> }
  >;
  for (const [key, { description }] of [...Object.entries(properties), ...Object.entries(rule)]) {
    expect(description, key).toMatch(/\w{3}.*\.$/);
  }
  const described = Object.entries(rule["fields"]?.properties ?? {});
  expect(described.map(([name]) => name)).toEqual(FIELD_NAMES);
  for (const [name, { description }] of described) expect(description).toBe(summaryOf(name));
});
