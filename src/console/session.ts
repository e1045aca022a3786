/**
 * Sessions of the console. A session is a cookie that is signed with a key made from the token that
 * opened it, or from OIDC_CLIENT_SECRET: every process can check it, and it ends when the secret is replaced. Pure.
 */
import { createHmac, randomBytes } from "node:crypto";
import { isOneOf } from "../ops/secrets.ts";
import type { IdentityProvider } from "../people/identity-provider.ts";
import {
  type Person,
  type Right,
  holdersOf,
  type Holder,
  type OpsTokens,
} from "../people/person.ts";

/** How long a session lasts, ms: one shift. */
export const SESSION_MS = 8 * 3_600_000;

export interface Session {
  readonly person: Person;
  readonly id: string;
  /** By which names the identity provider can end it. */
  readonly knownAs: readonly string[];
  /** When it began, by Redis' time, ms; 0 where nothing ends it by these names. */
  readonly since: number;
  /** When it ends, ms. */
  readonly until: number;
  /** Proves that text came from this session's own pages. */
  sign(text: string): string;
}

export type Signer = Pick<IdentityProvider, "sign">;

const newId = (): string => randomBytes(18).toString("base64url");

/** @returns the value of the cookie. */
export function openSession(holder: Holder, now: number): string {
  const head = `${newId()}.${now + SESSION_MS}`;
  return `${head}.${signer(holder)(`session ${head}`)}`;
}

/** What the cookie of a person from the identity provider carries; the first name is shown. */
interface Carried extends Pick<Session, "id" | "knownAs" | "since" | "until"> {
  readonly names: readonly string[];
  readonly rights: readonly Right[];
}

/** @returns the value of the cookie. */
export function openSignedIn(
  { names, rights }: Person,
  ends: Pick<Session, "knownAs" | "since">,
  signer: Signer,
  now: number,
): string {
  const until = now + SESSION_MS;
  const carried: Carried = { id: newId(), until, ...ends, names, rights: [...rights] };
  const text = Buffer.from(JSON.stringify(carried)).toString("base64url");
  return `oidc.${text}.${signer.sign(`session ${text}`)}`;
}

function readSignedIn(cookie: string, signer: Signer, now: number): Session | undefined {
  const [, text, mac] = /^oidc\.([\w-]+)\.([\w-]{43})$/.exec(cookie) ?? [];
  if (text === undefined || !isOneOf(mac, [signer.sign(`session ${text}`)])) return undefined;
  const carried = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as Carried;
  const { names, rights, ...ends } = carried;
  if (ends.until <= now) return undefined;
  const person = { name: names[0], names, rights: new Set(rights), via: "OIDC" as const };
  return { ...ends, person, sign: (said) => signer.sign(`${ends.id} ${said}`) };
}

/** The session of a cookie; undefined when it has ended, or its secret is not in force any more. */
export function readSession(
  cookie: string | undefined,
  { tokens, provider }: { readonly tokens: OpsTokens; readonly provider: Signer | undefined },
  now: number,
): Session | undefined {
  if (provider !== undefined && cookie?.startsWith("oidc.") === true) {
    return readSignedIn(cookie, provider, now);
  }
  const [, head, id, until, mac] =
    /^(([\w-]{24})\.(\d{13}))\.([\w-]{43})$/.exec(cookie ?? "") ?? [];
  if (head === undefined || id === undefined || Number(until) <= now) return undefined;
  const [found] = holdersOf(tokens).flatMap((holder) => {
    const sign = signer(holder);
    return isOneOf(mac, [sign(`session ${head}`)]) ? [{ person: holder.person, sign }] : [];
  });
  if (found === undefined) return undefined;
  const { person, sign } = found;
  const ends = { id, knownAs: [], since: 0, until: Number(until) };
  return { person, ...ends, sign: (text) => sign(`${id} ${text}`) };
}

/** Whether the text was signed by this session. */
export const isSignedIn = (session: Session, text: string, mac: string | undefined): boolean =>
  isOneOf(mac, [session.sign(text)]);

function signer({ person, token }: Holder): (text: string) => string {
  const key = createHmac("sha256", token).update(`crmsync console, ${person.via}`).digest();
  return (text) => createHmac("sha256", key).update(text).digest("base64url");
}
