/** Who may open the console: checks the session of each request, and each form. */
import type { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal } from "../../intake/http/limits.ts";
import {
  may,
  nameText,
  type Person,
  type Right,
  holdersOf,
  type Holder,
  type OpsTokens,
} from "../../base/person.ts";
import { createHmac, randomBytes } from "node:crypto";
import { isOneOf } from "../../base/secrets.ts";
import type { IdentityProvider } from "../../base/identity-provider.ts";
import type { CountRequest } from "../../intake/http/rate-limit.ts";
import type { LogEvent } from "../../base/log-events.ts";
import type { LogFields } from "../../base/log.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import type { EndableSession } from "../../core/state/ended-sessions.ts";
import type { Readings } from "../../operate/status/readings.ts";
import type { Stores } from "../../operate/status/stores.ts";

export const COOKIE = "crmsync_console";

/** Browsers take such a cookie over TLS alone, from this host alone: no other one can plant it. */
const HOST_ONLY = "__Host-";

export const cookieName = (name: string, secure: boolean): string =>
  secure ? `${HOST_ONLY}${name}` : name;

/** @param path where it is sent over plain HTTP; a cookie of this host alone is sent everywhere. */
export const cookieOptions = (secure: boolean, path: string) => ({
  path: secure ? "/" : path,
  httpOnly: true,
  sameSite: "strict" as const,
  secure,
});

/** Over TLS, only one of this host alone counts. */
export const cookieIn = (request: FastifyRequest, name: string): string | undefined =>
  request.cookies[cookieName(name, true)] ?? (isHttps(request) ? undefined : request.cookies[name]);

/**
 * A proxy may take the TLS off, and not say so: browsers send Sec-Fetch-Site over TLS, and to this machine, alone.
 * What the client claims here binds only its own cookie.
 */
export const isHttps = ({ headers, host, protocol }: FastifyRequest): boolean =>
  protocol === "https" ||
  /^https\b/i.test(String(headers["x-forwarded-proto"] ?? "")) ||
  (headers["sec-fetch-site"] !== undefined && !LOOPBACK.test(host));

const LOOPBACK = /^(?:(?:[\w-]+\.)*localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$/i;

/** The field of every form that proves that this console has made it. */
export const FORM_FIELD = "form";

const sessions = new WeakMap<FastifyRequest, Session>();

/** The session of a request that `requireSession` has let pass. */
export function sessionOf(request: FastifyRequest): Session {
  const session = sessions.get(request);
  if (session === undefined) throw new Error("the request has no session");
  return session;
}

/** A session whose signature is right. It may have ended: that cannot be known while Redis does not answer. */
export const knownSessionOf = (request: FastifyRequest): Session | undefined =>
  sessions.get(request);

/** What the forms of a session carry in FORM_FIELD. */
export const formProof = (session: Session): string => session.sign("form");

/** Checks each request to this scope. @param sendToLogin answers a request without a session. */
export function requireSession(
  scope: FastifyInstance,
  ports: ConsolePorts,
  sendToLogin: (
    request: FastifyRequest,
    reply: FastifyReply,
    ports: ConsolePorts,
  ) => Promise<FastifyReply>,
): void {
  scope.addHook("onRequest", async (request, reply) => {
    const session = readSession(cookieIn(request, COOKIE), ports, Date.now());
    const sender = session && `console ${session.person.via} ${session.person.name ?? ""}`;
    if (session !== undefined) sessions.set(request, session);
    await ports.count(request, sender);
    if (session === undefined || (await ports.isEnded(session)))
      return sendToLogin(request, reply, ports);
    if (request.method !== "GET" && request.method !== "HEAD") refuseForeign(request);
    return undefined;
  });
  scope.addHook("preHandler", async (request) => {
    if (request.method === "GET" || request.method === "HEAD") return;
    const given = formOf(request).get(FORM_FIELD) ?? undefined;
    if (!isSignedIn(sessionOf(request), "form", given)) {
      throw new Refusal(
        403,
        "This form was not made by your session, so nothing was done. Open the page again and repeat.",
      );
    }
  });
}

/** A hook for what only an operator may do. @throws Refusal for a session that may only look. */
export async function requireOperator(request: FastifyRequest): Promise<void> {
  const { person } = sessionOf(request);
  if (may(person, "act")) return;
  throw new Refusal(
    403,
    person.via === "OIDC"
      ? "Your roles let you look and not act, so nothing was done: acting needs a role of OIDC_ACT."
      : "VIEWER_TOKEN may only look, so nothing was done: log in with OPERATOR_TOKEN.",
  );
}

/** @throws Refusal for a session that may only look; src/people/approvals says what the others may. */
export async function requireDecider(request: FastifyRequest): Promise<void> {
  const { person } = sessionOf(request);
  if (may(person, "act") || may(person, "approve")) return;
  throw new Refusal(403, `${person.via} lets you only look, so nothing was done.`);
}

/**
 * Refuses what a browser sends from another site's page.
 * @throws Refusal
 */
export function refuseForeign({ headers, host }: FastifyRequest): void {
  const site = headers["sec-fetch-site"];
  const { origin } = headers;
  const isForeign =
    (site !== undefined && site !== "same-origin") ||
    // Browsers send no Sec-Fetch-Site over plain HTTP. With it, a proxy may have changed the host.
    (site === undefined && origin !== undefined && hostOf(origin) !== host);
  if (isForeign) {
    throw new Refusal(403, "This request came from a page of another site, so nothing was done.");
  }
}

const hostOf = (origin: string): string | undefined =>
  URL.canParse(origin) ? new URL(origin).host : undefined;

export const formOf = (request: FastifyRequest): URLSearchParams =>
  request.body instanceof URLSearchParams ? request.body : new URLSearchParams();

/** Who acts, as the audit trail names them; without a name, all operators share one token. */
export const actorOf = (request: FastifyRequest): string =>
  actorNamed(sessionOf(request).person, request.ip);

export const actorNamed = (person: Person, address: string): string =>
  `${nameText(person)} via console at ${address}`;

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

export type Signer = Pick<IdentityProvider, "issuer" | "sign">;

const newId = (): string => randomBytes(18).toString("base64url");

/** @returns the value of the cookie. */
export function openSession(holder: Holder, now: number): string {
  const head = `${newId()}.${now + SESSION_MS}`;
  return `${head}.${signer(holder)(`session ${head}`)}`;
}

/** What the cookie of a person from the identity provider carries. */
interface Carried
  extends Pick<Session, "id" | "knownAs" | "since" | "until">, Pick<Person, "name" | "names"> {
  readonly rights: readonly Right[];
  readonly subject: string | undefined;
  readonly address: string | undefined;
}

/** @returns the value of the cookie. */
export function openSignedIn(
  { account, address, name, names, rights }: Person,
  ends: Pick<Session, "knownAs" | "since">,
  signer: Signer,
  now: number,
): string {
  const until = now + SESSION_MS;
  const who = { name, names, address, subject: account?.subject, rights: [...rights] };
  const carried: Carried = { id: newId(), until, ...ends, ...who };
  const text = Buffer.from(JSON.stringify(carried)).toString("base64url");
  return `oidc.${text}.${signer.sign(`session ${text}`)}`;
}

function readSignedIn(cookie: string, signer: Signer, now: number): Session | undefined {
  const [, text, mac] = /^oidc\.([\w-]+)\.([\w-]{43})$/.exec(cookie) ?? [];
  if (text === undefined || !isOneOf(mac, [signer.sign(`session ${text}`)])) return undefined;
  const carried = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as Carried;
  const { address, name, names, rights, subject = "", ...ends } = carried;
  if (ends.until <= now) return undefined;
  const account = { subject, issuer: signer.issuer };
  const via = "OIDC";
  const person: Person = { name, names, rights: new Set(rights), via, account, address };
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

/** As src/certify/make.ts has it, which stands above. */
export interface CertificateRequest {
  readonly month: string;
  readonly format: "html" | "json";
  readonly by: string;
}

export interface ConsolePorts {
  readonly stores: Stores;
  readonly version: string;
  readonly tokens: OpsTokens;
  /** Undefined while none is configured. */
  readonly provider: IdentityProvider | undefined;
  readonly count: CountRequest;
  /** @throws Refusal after too many tries of one address. */
  readonly countLogin: (request: FastifyRequest) => Promise<void>;
  /** @throws Refusal after too many exports of one person, each of which has a line in the audit trail. */
  readonly countExport: (request: FastifyRequest, person: string) => Promise<void>;
  /** Whether the session was ended before its time. */
  readonly isEnded: (session: EndableSession) => Promise<boolean>;
  /** Readings that are a second old, or ten times as old as it took to read them, at most. */
  readonly readings: () => Promise<Readings>;
  /** Readings as they are now: after an act. */
  readonly freshReadings: () => Promise<Readings>;
  /** Makes the signed file, without a request to the service. @throws UserError */
  readonly certify: (request: CertificateRequest) => Promise<Readable>;
  /** The mapping of this process. */
  readonly mapping: Mapping;
  readonly log: (fields: LogFields, event: LogEvent) => void;
  readonly defect: (error: unknown) => void;
}
