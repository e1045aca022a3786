import { createHmac, hash } from "node:crypto";
import { isOneOf, secretsOf, type SecretText } from "../ops/secrets.ts";
import { splitNamed } from "../ops/secret-variable.ts";
import type { Config } from "../config.ts";

/** Who uses crmsync, and what they may do. Pure. */

/** `approve`: decide about an act that another person has asked for. */
export type Right = "look" | "act" | "approve";

export interface Person {
  /** As the audit trail, the history and the console name them; undefined: a token without a name. */
  readonly name: string | undefined;
  /** All names by which they are known, `name` included. None: nobody can say who this is. */
  readonly names: readonly string[];
  readonly rights: ReadonlySet<Right>;
  /** What their rights come from. */
  readonly via: "OPERATOR_TOKEN" | "VIEWER_TOKEN" | "OIDC";
}

export const may = ({ rights }: Pick<Person, "rights">, right: Right): boolean => rights.has(right);

/**
 * Whether two may be one person: they share a name, however it is written. `anna` is the same as
 * `anna@firm.example`, because one provider or file may give the short name and another one the long name;
 * `anna.muster` as `Anna Muster`, because a provider gives names that a token cannot have.
 */
export function maybeSamePerson(one: Pick<Person, "names">, other: Pick<Person, "names">): boolean {
  const known = new Set(other.names.flatMap(spellings));
  return one.names.flatMap(spellings).some((name) => known.has(name));
}

/** A name as it is compared: its letters and digits; of an address, the part before its domain, and before a `+`, too. */
function spellings(name: string): string[] {
  const [local = ""] = name.split("@");
  const [owner = ""] = local.split("+");
  const all = [name.normalize("NFKC").trim().toLowerCase(), ...[name, local, owner].map(folded)];
  return [...new Set(all)].filter((text) => text !== "");
}

/** Accents and other marks on a letter count for nothing; nor do cases, of which some letters have three. */
const folded = (name: string): string =>
  name
    .normalize("NFKD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/[\u0300-\u036f]|[^\p{L}\p{M}\p{N}]|\p{Default_Ignorable_Code_Point}/gu, "");

export interface OpsTokens {
  readonly viewer: SecretText | undefined;
  readonly operator: SecretText | undefined;
}

export interface Holder {
  readonly token: string;
  readonly person: Person;
}

const RIGHTS = {
  OPERATOR_TOKEN: new Set<Right>(["look", "act", "approve"]),
  VIEWER_TOKEN: new Set<Right>(["look"]),
} as const;

/** Operators first: a token that stands for both may act. */
export const holdersOf = ({ operator, viewer }: OpsTokens): Holder[] => [
  ...holders("OPERATOR_TOKEN", operator),
  ...holders("VIEWER_TOKEN", viewer),
];

const holders = (via: keyof typeof RIGHTS, secret: SecretText | undefined): Holder[] =>
  secretsOf(secret).map((text) => {
    const { name, token } = splitNamed(text);
    const names = name === undefined ? [] : [name];
    return { token, person: { name, names, rights: RIGHTS[via], via } };
  });

/** Who holds the token; the time that it takes does not depend on it. */
export function holderOf(given: string | undefined, tokens: OpsTokens): Holder | undefined {
  // People may copy the whole entry, name and token.
  const { token } = splitNamed(given ?? "");
  const [holder] = holdersOf(tokens).flatMap((one) => (isOneOf(token, [one.token]) ? [one] : []));
  return holder;
}

/** Tells equal tokens, and nothing else of them. */
export const markOf = (token: string): string =>
  createHmac("sha256", splitNamed(token).token).update("crmsync mark").digest("base64url");

/** Mark of each named operator's token → the name: it proves who acts where the tokens are not known. */
export const marksOf = ({ operator }: Pick<OpsTokens, "operator">): Record<string, string> =>
  Object.fromEntries(
    holders("OPERATOR_TOKEN", operator).flatMap(({ person: { name }, token }) =>
      name === undefined ? [] : [[markOf(token), name]],
    ),
  );

/** Marks of all tokens that may be this person's: they tell who it is after a token has got another name. */
export const marksOfPerson = (
  person: Pick<Person, "names">,
  holders: Readonly<Record<string, string>>,
): string[] =>
  Object.keys(holders).filter((mark) => maybeSamePerson(person, { names: [holders[mark] ?? ""] }));

/** The person with a named token of OPERATOR_TOKEN. */
export const operatorNamed = (name: string): Person => ({
  name,
  names: [name],
  rights: RIGHTS.OPERATOR_TOKEN,
  via: "OPERATOR_TOKEN",
});

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

export type Roles = Pick<Config, "OIDC_ACT" | "OIDC_APPROVE" | "OIDC_CLAIM" | "OIDC_LOOK">;

const ALL_RIGHTS: readonly (readonly [keyof Roles, readonly Right[]])[] = [
  ["OIDC_LOOK", ["look"]],
  ["OIDC_ACT", ["look", "act"]],
  ["OIDC_APPROVE", ["look", "approve"]],
];

/** Characters of one name; four names fit into a cookie. */
const MOST_CHARACTERS = 200;

const valuesOf = (list = ""): string[] =>
  list
    .split(",")
    .map((value) => value.trim())
    .filter((value) => value !== "");

/** The values of the claim that give a right. */
export const rolesIn = (roles: Roles): string[] =>
  ALL_RIGHTS.flatMap(([name]) => valuesOf(roles[name]));

/** @returns a person who may do nothing, if the claims give no right. */
export function personOf(claims: Claims, roles: Roles): Person {
  const has = new Set(claimValues(claims, roles.OIDC_CLAIM));
  const given = ALL_RIGHTS.filter(([name]) =>
    valuesOf(roles[name]).some((value) => has.has(value)),
  );
  const names = namesIn(claims);
  return { name: names[0], names, rights: new Set(given.flatMap(([, all]) => all)), via: "OIDC" };
}

/** How the sessions of a person, or one of them, are called when the provider ends them. */
export const sessionNames = (claims: Readonly<Record<string, unknown>>): string[] =>
  ["sub", "sid"].flatMap((name) => {
    const value = claims[name];
    return typeof value === "string"
      ? [hash("sha256", `${name} ${value}`, "base64url").slice(0, 22)]
      : [];
  });

function claimValues(claims: Claims, claim: string): unknown[] {
  // Anybody may write any address into some providers' profiles.
  if (claim === "email" && claims["email_verified"] !== true) return [];
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined;
  return Array.isArray(value) ? value : [value];
}

/**
 * What people recognise first. An address that is not verified is not shown, for anybody could appear as another
 * one. It still counts as a name: more names only mean that a person approves less of what they may have asked.
 */
function namesIn(claims: Claims): string[] {
  const { email, email_verified: isVerified, name, preferred_username: username, sub } = claims;
  const all = isVerified === true ? [email, username, name, sub] : [username, name, sub, email];
  const texts = all.filter((text) => typeof text === "string").map(cleaned);
  return [...new Set(texts)].filter((text) => text !== "");
}

const cleaned = (text: string): string =>
  text.normalize("NFC").replaceAll(/\p{C}/gu, "").trim().slice(0, MOST_CHARACTERS).toWellFormed();
