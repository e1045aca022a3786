/** The names of those who act, and what their tokens allow. */
import { expect, test } from "vitest";
import { ConfigError, readConfig } from "../../src/base/config.ts";
import { maybeSamePerson, holderOf, marksOfPerson } from "../../src/base/person.ts";

const A = "a".repeat(24);
const B = "b".repeat(24);
const C = "c".repeat(24);
const tokens = { operator: () => `anna:${A}\nben@firm.example:${B}`, viewer: () => `${C} ${A}` };

test("a token says who holds it, and the right of OPERATOR_TOKEN counts", () => {
  expect(holderOf(A, tokens)?.person).toMatchObject({ name: "anna", via: "OPERATOR_TOKEN" });
  expect(holderOf(`ben@firm.example:${B}`, tokens)?.person.name).toBe("ben@firm.example");
  expect(holderOf(C, tokens)?.person).toMatchObject({ name: undefined, via: "VIEWER_TOKEN" });
  for (const wrong of ["", "anna", "anna:", `${A}x`, undefined])
    expect(holderOf(wrong, tokens), String(wrong)).toBeUndefined();
});

test("names of one person are recognised, however they are written", () => {
  const same = (one: string, other: string) =>
    maybeSamePerson({ names: [one] }, { names: ["zoe", other] });
  for (const other of ["anna", "ANNA ", "Anna@firm.example", "ａnna"])
    expect(same("anna", other), other).toBe(true);
  // A name that a person may choose at the provider, and the one that a token can have.
  for (const other of [
    "Anna  Muster",
    "anna-muster",
    "anna.muster+2@firm.example",
    "ánna.\u034fMUSTER\ufe0f",
  ])
    expect(same("anna.muster", other), other).toBe(true);
  expect(same("straße", "STRASSE")).toBe(true);
  expect(same("राम", "रम")).toBe(false);
  // One person in two directories, and with a title, a second name, an initial, a domain.
  for (const [token, provider] of [
    ["anna.mueller", "Anna Müller"],
    ["anna.muller", "Anna MÜLLER"],
    ["lukasz.nowak", "Łukasz Nowak"],
    ["søren.aagaard", "Ågård, Soren"],
    ["anna.muster", "Muster, Anna"],
    ["anna.muster", "Dr. Anna Muster"],
    ["anna.muster", "Anna Maria Muster"],
    ["anna.muster", "FIRM\\anna.muster"],
    ["anna.muster@firm.example", "Dr. A. Muster"],
    ["amuster@firm.example", "Anna Muster"],
    ["annam", "FIRM\\Anna Muster"],
    ["anna.muster2", "Anna Muster"],
    ["oneill", "O’Neill"],
  ] as const)
    expect([same(token, provider), same(provider, token)], provider).toEqual([true, true]);
  for (const [one, other] of [
    ["anna", "annabelle"],
    ["anna.muster", "ben.muster"],
    ["a.muster", "b.muster"],
    ["anna@firm.example", "ben@firm.example"],
    ["FIRM\\anna", "FIRM\\ben"],
    ["Bert Engel", "ben"],
    ["00u7f3ab12", "00u7f3ab13"],
  ] as const)
    expect([same(one, other), same(other, one)], other).toEqual([false, false]);
  expect(maybeSamePerson({ names: [] }, { names: [] })).toBe(false);
});

test("a person's marks are those of all tokens with a name that may be theirs", () => {
  const holders = { m1: "anna", m2: "ben", m3: "ANNA@firm.example", m4: "annabelle" };
  expect(marksOfPerson({ names: ["u7", "anna@firm.example"] }, holders)).toEqual(["m1", "m3"]);
});

test("a token that is too short, stands twice or has a name that is none is refused", () => {
  for (const value of [
    `anna:short`,
    `anna:${A} ben:${A}`,
    `an/na:${A}`,
    `:${A}`,
    `anna:${A} short`,
  ])
    expect(() => readConfig({ OPERATOR_TOKEN: value }), value).toThrow(ConfigError);
  expect(() => readConfig({ OPERATOR_TOKEN: `anna:${A} ${B}` })).not.toThrow();
});

test("where people also sign in, and need a second person, the name of a token is an address", () => {
  const env = {
    OIDC_ISSUER: "https://login.example",
    OIDC_CLIENT_ID: "crmsync",
    OIDC_CLIENT_SECRET: "x".repeat(24),
    CONSOLE_URL: "https://crmsync.example",
    OIDC_ACT: "operators",
    APPROVALS: "held",
  };
  const read = (token: string, more = {}) => readConfig({ ...env, ...more, OPERATOR_TOKEN: token });
  for (const name of ["anna", "anna@firm", "anna.mueller", "@firm.example"])
    expect(() => read(`ben@firm.example:${B} ${name}:${A}`), name).toThrow(
      "OPERATOR_TOKEN has a name that is no e-mail address",
    );
  // Who holds one without a name can neither ask nor approve.
  expect(() => read(`anna.mueller@firm.example:${A} ${B}`)).not.toThrow();
  expect(() => read(`anna:${A}`, { APPROVALS: "" })).not.toThrow();
});
