/** The tokens of people and machines: OPERATOR_TOKEN and VIEWER_TOKEN, each with the name of who holds it. */
import { createHmac } from "node:crypto";
import { isOneOf, secretsOf, type SecretText } from "../ops/secrets.ts";
import { splitNamed } from "../ops/secret-variable.ts";
import { maybeSamePerson, type Person, type Right } from "./person.ts";

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
