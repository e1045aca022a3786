import { createHmac, hash } from "node:crypto";
import { isOneOf, secretsOf, type SecretText } from "./secrets.ts";
import { addressIn, splitNamed } from "./secret-variable.ts";
import type { Config } from "./config.ts";

/** Who uses crmsync, and what they may do. Pure. */

/** `approve`: decide about an act that another person has asked for. */
export type Right = "look" | "act" | "approve";

export interface Person {
  /** As the audit trail, the history and the console name them; undefined: a token without a name. */
  readonly name: string | undefined;
  /** All names of this person, `name` included. Empty: it is not known who this is. */
  readonly names: readonly string[];
  readonly rights: ReadonlySet<Right>;
  /** What their rights come from. */
  readonly via: "OPERATOR_TOKEN" | "VIEWER_TOKEN" | "OIDC";
  /** Of a person who signs in: the subject at its issuer, which no other person has. */
  readonly account?: Account | undefined;
  /** An address that the provider, or the name of the token, proves: it tells people apart who come by other ways. */
  readonly address?: string | undefined;
}

export interface Account {
  readonly subject: string;
  readonly issuer: string;
}

export const may = ({ rights }: Pick<Person, "rights">, right: Right): boolean => rights.has(right);

/** As lines of the audit trail, the history and the console name a person: no name of a token has a bracket. */
export const nameText = ({ account, name, rights }: Person): string => {
  const text = name ?? (rights.has("act") ? "operator" : "viewer");
  if (account === undefined) return text;
  // No text of the provider can end the bracket in which it stands.
  const subject = account.subject.replaceAll(/[^\w.@|:+=~-]/g, encoded);
  return `${text} (OIDC ${subject} of ${account.issuer})`;
};

const encoded = (one: string): string => `%${Buffer.from(one).toString("hex")}`;

/**
 * Whether two may be one person. Each name counts as a set of words, and the one of them may hold more than the other
 * (a title, a second name). In doubt it is one person, who cannot then approve what the other one asked.
 */
export const maybeSamePerson = (
  one: Pick<Person, "names">,
  other: Pick<Person, "names">,
): boolean => {
  const theirs = other.names.flatMap(readingsOf);
  const isTheirs = (mine: readonly string[]) =>
    theirs.some((words) => covers(mine, words) || covers(words, mine));
  return one.names.flatMap(readingsOf).some(isTheirs);
};

/** The words of a name; of an address or `FIRM\anna` those of the user, also without what follows a `+`. */
function readingsOf(name: string): string[][] {
  const user = folded(name)
    .replace(/^.*\\/s, "")
    .replace(/@[^@]*$/s, "");
  const [owner = ""] = user.split("+");
  // A number at the end of a word is a word: it may tell two accounts of one person apart.
  const all = [user, owner].map(
    (text) =>
      text
        .replaceAll(/(\p{L}[\p{L}\p{M}])(\p{N}+)(?![\p{L}\p{N}])/gu, "$1 $2")
        .match(/[\p{L}\p{M}\p{N}]+/gu) ?? [],
  );
  return all.flatMap((words) => [words, [words.join("")]]).filter(([first]) => first);
}

/** Whether each word is one of the others, one of both is the first letter, or it is two of them, as in `amuster`. */
const covers = (words: readonly string[], others: readonly string[]): boolean =>
  words.some(({ length }) => length > 1 || words.length === 1) &&
  words.every((word) =>
    others.some((other, n) => {
      const [short, long] = word.length < other.length ? [word, other] : [other, word];
      const isInitial = short.length === 1 && words.length > 1 && long.startsWith(short);
      if (word === other || isInitial) return true;
      const begins = word.startsWith(other);
      if (!begins && !word.endsWith(other)) return false;
      const rest = begins ? word.slice(other.length) : word.slice(0, -other.length);
      return others.some((third, at) => at !== n && third.startsWith(rest));
    }),
  );

const COLLATOR = new Intl.Collator("und", { sensitivity: "base" });
const LATIN = "a b c d e f g h i j k l m n o p q r s t u v w x y z ae oe".split(" ");

/** Letters that are written in several ways become one: `ü`, `ue` and `u`, `ł` and `l`, `ß` and `ss`, also in capitals. */
const folded = (name: string): string =>
  name
    .normalize("NFKD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKD")
    .replaceAll(/[\p{Script=Inherited}\p{Default_Ignorable_Code_Point}]/gu, "")
    .replaceAll(
      /[\p{Script=Latin}--[a-z]]/gv,
      (letter) => LATIN.find((one) => COLLATOR.compare(one, letter) === 0) ?? letter,
    )
    .replaceAll("þ", "th")
    .replaceAll(/([aou])e/g, "$1")
    .replaceAll("aa", "a");

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
    return { token, person: { name, names, rights: RIGHTS[via], via, address: addressIn(name) } };
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
  address: addressIn(name),
});

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string };

export type Roles = Pick<Config, "OIDC_ACT" | "OIDC_APPROVE" | "OIDC_CLAIM" | "OIDC_LOOK">;

const ALL_RIGHTS: readonly (readonly [keyof Roles, readonly Right[]])[] = [
  ["OIDC_LOOK", ["look"]],
  ["OIDC_ACT", ["look", "act"]],
  ["OIDC_APPROVE", ["look", "approve"]],
];

/** Characters of one name: all fit into a cookie. */
const MOST_CHARACTERS = 128;

/** As OpenID Connect has it. */
export const SUBJECT = /^[\x20-\x7e]{1,255}$/;

const valuesOf = (list = ""): string[] =>
  list
    .split(",")
    .map((value) => value.trim())
    .filter((value) => value !== "");

/** The values of the claim that give a right. */
export const rolesIn = (roles: Roles): string[] =>
  ALL_RIGHTS.flatMap(([name]) => valuesOf(roles[name]));

/** @returns a person who may do nothing, if the claims give no right. */
export function personOf(claims: Claims, roles: Roles, issuer: string): Person {
  const has = new Set(claimValues(claims, roles.OIDC_CLAIM));
  const given = ALL_RIGHTS.filter(([name]) =>
    valuesOf(roles[name]).some((value) => has.has(value)),
  );
  const rights = new Set(given.flatMap(([, all]) => all));
  return { ...namesIn(claims), rights, via: "OIDC", account: { subject: claims.sub, issuer } };
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
function namesIn(claims: Claims): Pick<Person, "name" | "names" | "address"> {
  const { email, email_verified: isVerified, name, preferred_username: username, sub } = claims;
  const proven = [isVerified === true ? email : undefined, username].map(cleaned);
  const shown = [...proven, cleaned(name), cleaned(sub)].find(isShowable);
  const all = [...proven, cleaned(name), cleaned(email), sub];
  const names = [...new Set(all)].filter((text) => text !== "");
  return { name: shown ?? "somebody", names, address: proven.find(addressIn) };
}

const cleaned = (text: unknown): string =>
  typeof text !== "string"
    ? ""
    : text
        .normalize("NFKC")
        .replaceAll(/\s+/gu, " ")
        .replaceAll(/[\p{C}\p{Default_Ignorable_Code_Point}]/gu, "")
        .slice(0, MOST_CHARACTERS)
        .toWellFormed()
        .trim();

const SHOWABLE = /^[\p{L}\p{M}\p{N}][\p{L}\p{M}\p{N} .,'’_@+-]*$/u;

/** Letters that look like those of another alphabet, and the words of a line itself, would name another person. */
const isShowable = (name: string): boolean =>
  SHOWABLE.test(name) &&
  !/\bvia\b/i.test(name) &&
  (/^[a-z\P{L}]*$/u.test(folded(name)) || !/\p{Script=Latin}/u.test(name));
