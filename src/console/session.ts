/**
 * Sessions of the console. A session is a cookie that is signed with a key made from the token that
 * opened it: every process can check it, and it ends when the token is replaced. Pure.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isOneOf, secretsOf } from "../ops/secrets.ts";
import type { OpsTokens, Role } from "../http/ops-access.ts";

/** How long a session lasts, ms: one shift. */
export const SESSION_MS = 8 * 3_600_000;

export interface Session {
  readonly role: Role;
  readonly id: string;
  /** When it ends, ms. */
  readonly until: number;
  /** Proves that text came from this session's own pages. */
  sign(text: string): string;
}

/** @returns the value of the cookie; undefined for a wrong token. */
export function openSession(given: string, tokens: OpsTokens, now: number): string | undefined {
  // All are compared, so that the time does not depend on the token.
  const [role] = candidates(tokens).flatMap(({ role, token }) =>
    isOneOf(given, [token]) ? [role] : [],
  );
  if (role === undefined) return undefined;
  const head = `${randomBytes(18).toString("base64url")}.${now + SESSION_MS}`;
  return `${head}.${signer(role, given)(`session ${head}`)}`;
}

/** The session of a cookie; undefined when it has ended, or its token is not in force any more. */
export function readSession(
  cookie: string | undefined,
  tokens: OpsTokens,
  now: number,
): Session | undefined {
  const [, head, id, until, mac] =
    /^(([\w-]{24})\.(\d{13}))\.([\w-]{43})$/.exec(cookie ?? "") ?? [];
  if (head === undefined || id === undefined || Number(until) <= now) return undefined;
  const [found] = candidates(tokens).flatMap(({ role, token }) => {
    const sign = signer(role, token);
    return isOneOf(mac, [sign(`session ${head}`)]) ? [{ role, sign }] : [];
  });
  if (found === undefined) return undefined;
  const { role, sign } = found;
  return { role, id, until: Number(until), sign: (text) => sign(`${id} ${text}`) };
}

/** Whether the text was signed by this session. */
export const isSignedIn = (session: Session, text: string, mac: string | undefined): boolean =>
  isOneOf(mac, [session.sign(text)]);

/** Operators first: a token that stands for both roles may act. */
const candidates = ({ operator, viewer }: OpsTokens) => [
  ...secretsOf(operator).map((token) => ({ role: "act" as const, token })),
  ...secretsOf(viewer).map((token) => ({ role: "look" as const, token })),
];

function signer(role: Role, token: string): (text: string) => string {
  const key = createHmac("sha256", token).update(`crmsync console, ${role}`).digest();
  return (text) => createHmac("sha256", key).update(text).digest("base64url");
}
