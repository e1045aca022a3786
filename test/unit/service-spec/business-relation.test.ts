import { describe, expect, it } from "vitest";
import {
  companySchema,
  FIELDS_OF,
  personSchema,
} from "../../../src/core/service-spec/business-relation.ts";
import { problemsOf } from "../../../src/core/event/problem.ts";

const person = { type: "Person", crmCode: "4711", firstName: "Ada", lastName: "Muster" };
const company = { type: "Fund", crmCode: "C-1", name: "Alpha SICAV" };

function problems(schema: typeof personSchema | typeof companySchema, value: unknown) {
  const parsed = schema.safeParse(value);
  return parsed.success ? [] : problemsOf(parsed.error, value);
}
const personProblems = (extra: object) => problems(personSchema, { ...person, ...extra });
const companyProblems = (extra: object) => problems(companySchema, { ...company, ...extra });

describe("Person", () => {
  it("accepts the required fields alone and fills in the spec's defaults", () => {
    expect(personSchema.parse(person)).toEqual({
      ...person,
      relationshipStatus: "Client",
      relationStatus: "active",
      amlFrequency: "ongoing",
    });
  });

  it.each(["type", "crmCode", "firstName", "lastName"])("requires %s", (field) => {
    expect(problems(personSchema, { ...person, [field]: undefined })).toEqual([
      { field, rule: "is required", kind: "nothing" },
    ]);
  });

  it.each([
    { nationality: "lu" },
    { nationality: "XX" },
    { nationality: "XK" },
    { nationality: "LUX" },
    { fiscalCountry: "" },
    { language: "FR" },
    { language: "xx" },
    { birthDate: "2023-02-29" },
    { birthDate: "1980-1-1" },
    { birthDate: "1980-01-01T00:00:00Z" },
    { email: "a+b@example.com" },
    { email: "nobody" },
    { email: "a@b.c" },
    { email: "ada@acme-.com" },
    { dmsLinkUrl: "https://dms.example/#folder#1" },
    { dmsLinkUrl: "https:///a" },
    { dmsLinkUrl: "http:a" },
    { dmsLinkUrl: "https://dms.example/?folder[]=1" },
    { dmsLinkUrl: "https://dms.example/a[1]" },
    { dmsLinkUrl: "https://a[b@dms.example/" },
    { dmsLinkUrl: "https://[::1]]/" },
    { relationshipStatus: "client" },
    { relationStatus: "Terminated" },
    { amlFrequency: "once" },
    { crmId: "4711" },
    { maritalStatus: "Widow" },
    { wealthSource: "salaries_remuneration" },
    { wealthSource: ["salaries_remuneration", "luck"] },
    { originOfBusinessRelation: "friends" },
    { crsStatus: "compliant" },
    { dmsLinkUrl: "not a uri" },
    { dmsLinkUrl: "https://example.com/%zz" },
    { dmsLinkUrl: `https://example.com/${"x".repeat(481)}` },
    { crmCode: "x".repeat(101) },
    { crmCode: "." },
    { crmCode: "schema-config" },
    { crmCode: "a\u0000b" },
    { crmCode: "\ud800" },
    ...[
      " 1",
      "1 ",
      "\u00a01",
      "1\u3000",
      "\ufeff1",
      "1\u200b",
      "1\u00ad2",
      "1\u2028",
      "1\ufe0f",
    ].map((crmCode) => ({ crmCode })),
    { industrySector: "p_education" },
    { unheardOf: "x" },
    { name: null },
    { firstName: 7 },
  ])("rejects %o", (extra) => {
    expect(personProblems(extra)).not.toEqual([]);
  });

  it.each([
    { nationality: "LU", fiscalCountry: "CH", countryOfResidence: "DE", language: "fr" },
    { birthDate: "2024-02-29" },
    { email: "a.b-c_d@example.co.uk" },
    { crmId: "3f0e6a9e-8c1d-4b52-9a43-0e5b0c7d1f2a" },
    { wealthSource: ["salaries_remuneration", "inheritance"] },
    { dmsLinkUrl: `https://example.com/${"x".repeat(480)}` },
    { dmsLinkUrl: "https://a@[::1]:80/" },
    { crmCode: "x".repeat(100) },
    { crmCode: "🙂".repeat(100) },
    { crmCode: "a/b c%20?#ü" },
  ])("accepts %o", (extra) => {
    expect(personProblems(extra)).toEqual([]);
  });

  it("names the field, the rule and the kind of value, never the value", () => {
    const found = personProblems({ maritalStatus: "secretly engaged", wealthSource: ["luck"] });
    expect(found.map(({ field, kind }) => ({ field, kind }))).toEqual([
      { field: "maritalStatus", kind: "a string of 16 characters" },
      { field: "wealthSource[0]", kind: "a string of 4 characters" },
    ]);
    expect(JSON.stringify(found)).not.toMatch(/engaged|luck/);
    expect(found[0]?.rule).toContain("Single, Married, Divorced");
  });
});

describe("Company", () => {
  it.each(["type", "crmCode", "name"])("requires %s", (field) => {
    expect(companyProblems({ [field]: undefined })).toHaveLength(1);
  });

  it.each([
    { type: "Person" },
    { type: "Corporation" },
    { legalForm: "GmbH" },
    { listedCompany: "yes" },
    { incorporationDate: "2020-13-01" },
    { firstName: "Ada" },
  ])("rejects %o", (extra) => {
    expect(companyProblems(extra)).not.toEqual([]);
  });

  it("accepts every field of its variant", () => {
    const full = {
      countryOfOperation: "LU",
      incorporationDate: "1999-12-31",
      vatNumber: "LU1",
      industrySector: "p_education",
      legalForm: "SCSp SICAV SIF",
      listedCompany: false,
      regulatedEntity: true,
      stateOwnedEntity: false,
      service: ["family_office"],
      complexityOfBoStructure: "e_more_than_6_structure_level",
    };
    expect(companyProblems(full)).toEqual([]);
  });
});

it("the schemas have as many fields as the spec's tables", () => {
  expect(FIELDS_OF.Person.size).toBe(30);
  expect(FIELDS_OF.Company.size).toBe(32);
});
