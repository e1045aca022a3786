/** What the claims of the identity provider make of a person. */
import { expect, test } from "vitest";
import { readConfig } from "../../src/base/config.ts";
import { openSignedIn, readSession } from "../../src/people/console/access.ts";
import { maybeSamePerson, nameText, personOf, sessionNames } from "../../src/base/person.ts";

const ROLES = {
  OIDC_CLAIM: "groups",
  OIDC_LOOK: "staff",
  OIDC_ACT: " operators ,, admins",
  OIDC_APPROVE: "approvers",
};

const ISSUER = "https://login.example";

const rightsOf = (claims: object, roles = {}) =>
  [...personOf({ sub: "s", ...claims }, { ...ROLES, ...roles }, ISSUER).rights].toSorted();

test("groups give rights, each also to look", () => {
  expect(rightsOf({ groups: ["staff"] })).toEqual(["look"]);
  expect(rightsOf({ groups: ["admins", "approvers"] })).toEqual(["act", "approve", "look"]);
  expect(rightsOf({ groups: "operators" })).toEqual(["act", "look"]);
  for (const groups of [undefined, null, "", [""], ["operators,admins"], { staff: true }, 1]) {
    expect(rightsOf({ groups }), JSON.stringify(groups)).toEqual([]);
  }
  expect(rightsOf({ roles: ["staff"] }, { OIDC_CLAIM: "roles" })).toEqual(["look"]);
  expect(rightsOf({}, { OIDC_CLAIM: "toString" })).toEqual([]);
});

test("an e-mail address gives rights only if it is verified", () => {
  const roles = { OIDC_CLAIM: "email", OIDC_LOOK: "anna@firm.example" };
  const email = "anna@firm.example";
  expect(rightsOf({ email, email_verified: true }, roles)).toEqual(["look"]);
  for (const email_verified of [undefined, false, "true", 1]) {
    expect(rightsOf({ email, email_verified }, roles)).toEqual([]);
  }
});

test("only a verified address is shown, and each name counts for four eyes", () => {
  const claims = { sub: "s1", email: "ben@firm.example", name: "Anna", preferred_username: "anna" };
  const unsure = personOf(claims, ROLES, ISSUER);
  expect(unsure).toMatchObject({ name: "anna", address: undefined });
  expect(unsure.names.toSorted()).toEqual(["Anna", "anna", "ben@firm.example", "s1"]);
  expect(personOf({ ...claims, email_verified: true }, ROLES, ISSUER)).toMatchObject({
    name: "ben@firm.example",
    address: "ben@firm.example",
  });
  expect(personOf({ sub: "s1", email: 7, name: " " }, ROLES, ISSUER).names).toEqual(["s1"]);
  const [anna, ben] = [{ names: ["anna@firm.example"] }, { names: ["BEN"] }];
  expect(maybeSamePerson(unsure, anna) && maybeSamePerson(unsure, ben)).toBe(true);
});

test.for([
  ["the words of a line", "Ben via console at 10.0.0.9"],
  ["letters of another alphabet", "Вen Muster"],
  ["letters that look alike", "Bɘn Muster"],
  ["a letter that fills no place", "Ben\u2800Muster"],
  ["a bracket", "Ben (OIDC s1 of https://login.example)"],
  ["nothing that is seen", "\u3164\u200b"],
  ["a line break", "Ben\nMuster", "Ben Muster"],
  ["letters that fill two places", "Ｂen\u200b \u202eMuster", "Ben Muster"],
  ["its own alphabet", "Людмила", "Людмила"],
  ["marks", "Łukasz Bjørn Þór O’Neill-Çelik", "Łukasz Bjørn Þór O’Neill-Çelik"],
] as const)("a name with %s is shown only if it can be no other one", ([, name, shown = "s2"]) => {
  const person = personOf({ sub: "s2", name }, ROLES, ISSUER);
  expect(person.name).toBe(shown);
  expect(nameText(person)).toBe(`${shown} (OIDC s2 of https://login.example)`);
  const hostile = { ...person, account: { subject: 's) via console at "', issuer: ISSUER } };
  expect(nameText(hostile)).toBe(
    `${shown} (OIDC s%29%20via%20console%20at%20%22 of https://login.example)`,
  );
});

test("the longest names fit into a cookie, and hide no characters", () => {
  const long = (text: string) => text.repeat(5000 / text.length);
  const [name, preferred_username] = [long("界"), long('"')];
  const email = `${long("ü")}@x`;
  const sub = "\\".repeat(255);
  const person = personOf({ sub, name, preferred_username, email }, ROLES, ISSUER);
  expect(person.names).toHaveLength(4);
  const signer = { issuer: ISSUER, sign: () => "m".repeat(43) };
  const ends = { knownAs: sessionNames({ sub: long("s"), sid: long("界") }), since: 1e12 };
  const cookie = openSignedIn(person, ends, signer, 1e12);
  expect(cookie.length).toBeLessThan(4000);
  const session = readSession(cookie, { tokens: NO_TOKENS, provider: signer }, 1e12);
  expect(session?.person).toEqual(person);
});

const NO_TOKENS = { viewer: undefined, operator: undefined };

const OIDC = {
  OIDC_ISSUER: "https://login.example",
  OIDC_CLIENT_ID: "crmsync",
  OIDC_CLIENT_SECRET: "x".repeat(24),
  CONSOLE_URL: "https://crmsync.example",
  OIDC_ACT: "operators",
};

test("half a sign-in is an error that names what is missing", () => {
  expect(() => readConfig(OIDC)).not.toThrow();
  expect(() => readConfig({ CONSOLE_URL: OIDC.CONSOLE_URL })).not.toThrow();
  for (const name of Object.keys(OIDC) as (keyof typeof OIDC)[]) {
    const missing = name === "OIDC_ACT" ? "one of OIDC_LOOK, OIDC_ACT, OIDC_APPROVE" : name;
    expect(() => readConfig({ ...OIDC, [name]: "" }), name).toThrow(
      `needs also ${missing} to sign people in`,
    );
  }
  expect(() => readConfig({ OIDC_CLAIM: "roles" })).toThrow(
    "needs also OIDC_ISSUER, OIDC_CLIENT_ID, OIDC_CLIENT_SECRET, CONSOLE_URL, one of OIDC_LOOK",
  );
});

test("addresses that would carry secrets in the clear, or lead elsewhere, are refused", () => {
  for (const [given, says] of [
    [{ OIDC_ISSUER: "http://login.example" }, "OIDC_ISSUER must be an https address"],
    [{ OIDC_ISSUER: "https://a@login.example" }, "OIDC_ISSUER must have no user name"],
    [
      { OIDC_ISSUER: "https://login.example/.well-known/openid-configuration" },
      "OIDC_ISSUER must end before",
    ],
    [{ CONSOLE_URL: "http://crmsync.example" }, "CONSOLE_URL must be an https address"],
    [{ CONSOLE_URL: "https://crmsync.example/path" }, "CONSOLE_URL must be the address"],
    [{ OIDC_CLIENT_SECRET: "short" }, "OIDC_CLIENT_SECRET is shorter than 24"],
    [{ OIDC_CLIENT_SECRET: `${"x".repeat(24)} y` }, "or has a blank"],
  ] as const) {
    expect(() => readConfig({ ...OIDC, ...given }), says).toThrow(says);
  }
  const local = { OIDC_ISSUER: "http://127.0.0.1:1", CONSOLE_URL: "http://localhost:2/console" };
  expect(readConfig({ ...OIDC, ...local }).CONSOLE_URL).toBe("http://localhost:2");
});
