/**
 * Sessions of the console. A session is a cookie that is signed with a key made from the token that
 * opened it: every process can check it, and it ends when the token is replaced. Pure.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isOneOf } from "../ops/secrets.ts";
import type { Person } from "../people/person.ts";
import { holderOf, holdersOf, type Holder, type OpsTokens } from "../people/tokens.ts";

/** How long a session lasts, ms: one shift. */
export const SESSION_MS = 8 * 3_600_000;

export interface Session {
  readonly person: Person;
  readonly id: string;
  /** When it ends, ms. */
  readonly until: number;
  /** Proves that text came from this session's own pages. */
  sign(text: string): string;
}

/** @returns the value of the cookie; undefined for a wrong token. */
export function openSession(given: string, tokens: OpsTokens, now: number): string | undefined {
  const holder = holderOf(given, tokens);
  if (holder === undefined) return undefined;
  const head = `${randomBytes(18).toString("base64url")}.${now + SESSION_MS}`;
  return `${head}.${signer(holder)(`session ${head}`)}`;
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
  const [found] = holdersOf(tokens).flatMap((holder) => {
    const sign = signer(holder);
    return isOneOf(mac, [sign(`session ${head}`)]) ? [{ person: holder.person, sign }] : [];
  });
  if (found === undefined) return undefined;
  const { person, sign } = found;
  return { person, id, until: Number(until), sign: (text) => sign(`${id} ${text}`) };
}

/** Whether the text was signed by this session. */
export const isSignedIn = (session: Session, text: string, mac: string | undefined): boolean =>
  isOneOf(mac, [session.sign(text)]);

function signer({ person, token }: Holder): (text: string) => string {
  const key = createHmac("sha256", token).update(`crmsync console, ${person.via}`).digest();
  return (text) => createHmac("sha256", key).update(text).digest("base64url");
}
