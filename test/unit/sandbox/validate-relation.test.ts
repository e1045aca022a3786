import { describe, expect, test } from "vitest";
import { problems } from "../../../src/sandbox/responses.ts";
import { defaultRules } from "../../../src/sandbox/tenant-values.ts";
import { validateRelation, type TenantFieldRule } from "../../../src/sandbox/validate-relation.ts";

const PERSON = { type: "Person", crmCode: "p-1", firstName: "Ada", lastName: "Muster" };
const RULES = { tenant: defaultRules, unknownFields: "reject" } as const;

function problemsOf(body: unknown, rules: Parameters<typeof validateRelation>[1] = RULES) {
  const result = validateRelation(body, rules);
  return result.ok ? [] : result.problems;
}

describe("problems", () => {
  test("are all reported together", () => {
    const body = { type: "Person", crmCode: 7, firstName: null, email: "x", nationality: "CHE" };
    expect(problemsOf(body)).toEqual([
      "lastName is required",
      "crmCode must be a string, not a number",
      "firstName must be a string, not null",
      "email must be an email address",
      "nationality must have at most 2 characters",
      "nationality must be an ISO 3166-1 alpha-2 country code in upper case",
    ]);
  });

  test("never contain a value", () => {
    const secret = "SECRET-VALUE";
    const body = Object.fromEntries(
      ["email", "birthDate", "nationality", "crmId", "dmsLinkUrl", "maritalStatus", "service"].map(
        (field) => [field, field === "service" ? [secret] : secret],
      ),
    );
    const found = problemsOf({ ...PERSON, ...body });
    expect(found.length).toBeGreaterThanOrEqual(7);
    expect(found.join(" ")).not.toContain(secret);
  });

  test("that do not fit into one text are counted", () => {
    const unknown = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field${i}`, 1]));
    const { body } = problems(400, "Invalid input", problemsOf({ ...PERSON, ...unknown }));
    const { error } = JSON.parse(body) as { error: string };
    expect(error.length).toBeLessThan(2050);
    expect(error).toMatch(/; and \d+ more problems$/);
  });

  test("cut the name of an unknown field to 50 characters", () => {
    expect(problemsOf({ ...PERSON, ["x".repeat(1000)]: 1 })[0]!.length).toBeLessThan(120);
  });
});

describe("unknown fields", () => {
  test("are rejected, and a field of the other variant is reported as such", () => {
    expect(problemsOf({ ...PERSON, gender: "f", legalForm: "SA" })).toEqual([
      '"gender" is not a field of the Person variant',
      "legalForm is a field of the Company variant, not of the Person variant",
    ]);
  });

  test("are dropped under the policy ignore", () => {
    const body: unknown = JSON.parse(
      `${JSON.stringify({ ...PERSON, gender: "f" }).slice(0, -1)},"__proto__":{"city":"x"}}`,
    );
    const result = validateRelation(body, { ...RULES, unknownFields: "ignore" });
    expect(result).toEqual({
      ok: true,
      relation: {
        ...PERSON,
        relationshipStatus: "Client",
        relationStatus: "active",
        amlFrequency: "ongoing",
      },
    });
  });

  test.each(["__proto__", "constructor", "toString", "hasOwnProperty"])(
    "%s is an unknown field",
    (field) => {
      const body: unknown = JSON.parse(
        `${JSON.stringify(PERSON).slice(0, -1)},${JSON.stringify(field)}:"x"}`,
      );
      expect(problemsOf(body)).toEqual([`"${field}" is not a field of the Person variant`]);
    },
  );
});

describe("characters", () => {
  test("are counted as Unicode code points", () => {
    expect(problemsOf({ ...PERSON, crmCode: "🏦".repeat(100) })).toEqual([]);
    expect(problemsOf({ ...PERSON, crmCode: "🏦".repeat(101) })).toEqual([
      "crmCode must have at most 100 characters",
    ]);
  });
  test("must be well-formed Unicode", () => {
    expect(problemsOf({ ...PERSON, lastName: "\ud83c" })).toEqual([
      "lastName must be well-formed Unicode",
    ]);
  });
  test("are required in a crmCode and optional in a name", () => {
    expect(problemsOf({ ...PERSON, crmCode: "" })).toEqual(["crmCode must not be empty"]);
    expect(problemsOf({ ...PERSON, firstName: "" })).toEqual([]);
  });
});

describe("the client's own rules", () => {
  const withService = (rule: TenantFieldRule) => ({
    ...RULES,
    tenant: { ...defaultRules, service: rule },
  });

  test("can make a field required", () => {
    const rules = withService({ values: ["a"], isRequired: true, multiSelect: true });
    expect(problemsOf(PERSON, rules)).toEqual(["service is required"]);
    expect(problemsOf({ ...PERSON, service: [] }, rules)).toEqual(["service needs a value"]);
    expect(problemsOf({ ...PERSON, service: ["a"] }, rules)).toEqual([]);
  });
  test("can allow one value only", () => {
    const rules = withService({ values: ["a", "b"], isRequired: false, multiSelect: false });
    expect(problemsOf({ ...PERSON, service: ["a", "b"] }, rules)).toEqual([
      "service takes one value only",
    ]);
  });
  test("do not apply to a variant without the field", () => {
    const industrySector = { values: ["a"], isRequired: true, multiSelect: false };
    const rules = { ...RULES, tenant: { ...defaultRules, industrySector } };
    expect(problemsOf(PERSON, rules)).toEqual([]);
    expect(problemsOf({ type: "Fund", crmCode: "f", name: "F" }, rules)).toEqual([
      "industrySector is required",
    ]);
  });
});

test("problems of type and crmCode are reported together", () => {
  expect(problemsOf({ type: "Robot" })).toEqual([
    expect.stringContaining("type must be one of Person, Association"),
    "crmCode is required",
  ]);
});

test("a missing body is one problem", () => {
  expect(problemsOf(undefined)).toEqual(["body is required"]);
});

test.each([null, [], "x", 7, true])("%j is not a relation", (body) => {
  expect(problemsOf(body)[0]).toMatch(/^body must be a JSON object, not /);
});
