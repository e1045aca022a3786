/** GET and POST /console/login with a token, POST /console/logout. */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isOneOf } from "../ops/secrets.ts";
import { type Person, holderOf } from "../people/person.ts";
import { actorNamed, COOKIE, FORM_FIELD, formOf, refuseForeign, sessionOf } from "./access.ts";
import { html, pathTo, type Html } from "./html.ts";
import { BASE, layout } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { openSession, SESSION_MS } from "./session.ts";

const LOGIN_PATH = `${BASE}/login`;

/** Where a sign-in at the identity provider begins. */
export const SIGN_IN_PATH = `${BASE}/sign-in`;

/** The cookie that a login form must be sent back with. */
const LOGIN_COOKIE = "crmsync_login";

/** How long a login form can be used, s. */
const LOGIN_FORM_S = 3600;

/** Sends a request without a session to the login, and from there back to its page. */
export async function sendToLogin(
  request: FastifyRequest,
  reply: FastifyReply,
  ports: ConsolePorts,
): Promise<FastifyReply> {
  if (request.method === "GET" || request.method === "HEAD") {
    return reply.redirect(pathTo(LOGIN_PATH, { next: request.url }), 303);
  }
  return sendForm(request, reply, ports, {
    status: 401,
    says: "Your session has ended, so nothing was done. Log in and repeat.",
    next: BASE,
  });
}

export function serveLogin(app: FastifyInstance, ports: ConsolePorts): void {
  const { count, countLogin, tokens } = ports;
  app.addHook("onRequest", (request) => count(request, undefined));
  app.get<{ Querystring: { next?: string; ended?: string } }>(LOGIN_PATH, (request, reply) => {
    const { ended, next } = request.query;
    const isEnded = ended !== undefined;
    return sendForm(request, reply, ports, { status: 200, next: nextOf(next), isEnded });
  });
  app.post(LOGIN_PATH, async (request, reply) => {
    refuseForeign(request);
    await countLogin(request);
    const form = formOf(request);
    const next = nextOf(form.get("next") ?? undefined);
    const proof = request.cookies[LOGIN_COOKIE];
    if (proof === undefined || !isOneOf(form.get(FORM_FIELD) ?? "", [proof])) {
      const says = "This form is too old, or the browser keeps no cookies. Try again.";
      return sendForm(request, reply, ports, { status: 403, says, next });
    }
    const holder = holderOf((form.get("token") ?? "").trim(), tokens);
    if (holder === undefined) {
      const says = "This is neither OPERATOR_TOKEN nor VIEWER_TOKEN.";
      ports.log({ kind: "token", why: "wrong token", from: request.ip }, "console.refused");
      return sendForm(request, reply, ports, { status: 401, says, next });
    }
    await noteLogin(request, ports, holder.person);
    const cookie = openSession(holder, Date.now());
    return setSession(reply, cookie, cookieOptions(request)).redirect(next, 303);
  });
}

/** Before the session begins: none is without its line in the audit trail. */
export async function noteLogin(
  { ip }: FastifyRequest,
  { log, stores }: ConsolePorts,
  person: Person,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const { rights, via } = person;
  const said = { via, rights: [...rights], ...details };
  const by = actorNamed(person, ip);
  await stores.auditActs.record({ act: "console.login", by, details: said });
  log({ kind: via, from: ip }, "console.login");
}

export const setSession = (
  reply: FastifyReply,
  cookie: string,
  options: ReturnType<typeof cookieOptions>,
): FastifyReply =>
  reply
    .clearCookie(LOGIN_COOKIE, options)
    .setCookie(COOKIE, cookie, { ...options, maxAge: SESSION_MS / 1000 });

/** @param app whose requests have a session. */
export function serveLogout(app: FastifyInstance, { log, stores }: ConsolePorts): void {
  app.post(`${BASE}/logout`, async (request, reply) => {
    const { id, person, until } = sessionOf(request);
    await stores.endedSessions.end(id, until - Date.now());
    log({ kind: person.via, from: request.ip }, "console.logout");
    const path = person.via === "OIDC" ? pathTo(LOGIN_PATH, { ended: 1 }) : LOGIN_PATH;
    return reply.clearCookie(COOKIE, cookieOptions(request)).redirect(path, 303);
  });
}

interface LoginForm {
  readonly status: number;
  readonly says?: string;
  readonly next: string;
  /** After a person from the identity provider has logged out. */
  readonly isEnded?: boolean;
}

export async function sendForm(
  request: FastifyRequest,
  reply: FastifyReply,
  { provider, tokens }: ConsolePorts,
  { status, says, next, isEnded = false }: LoginForm,
): Promise<FastifyReply> {
  const proof = randomBytes(18).toString("base64url");
  const signIn = provider && (await signInPart(provider, next, isEnded));
  const hasToken = tokens.operator !== undefined || tokens.viewer !== undefined;
  const form = hasToken ? tokenForm(next, proof) : undefined;
  const folded = html`<details>
    <summary>With a token</summary>
    ${form}
  </details>`;
  const main = html`${says && html`<p class="notice bad" role="alert">${says}</p>`} ${signIn}
    ${signIn && form ? folded : form}
    <p class="dim">A session ends after ${SESSION_MS / 3_600_000} hours.</p>`;
  return reply
    .code(status)
    .type("text/html; charset=utf-8")
    .setCookie(LOGIN_COOKIE, proof, { ...cookieOptions(request), maxAge: LOGIN_FORM_S })
    .send(String(layout({ title: "Log in", main })));
}

/** A link, not a form: browsers do not let a form of these pages lead to another host. */
async function signInPart(
  provider: NonNullable<ConsolePorts["provider"]>,
  next: string,
  isEnded: boolean,
): Promise<Html> {
  const { host } = provider;
  const why = await provider.find().then(
    () => undefined,
    (error: Error) => error.message,
  );
  const start = provider.addressOf(pathTo(SIGN_IN_PATH, { next }));
  const end = isEnded ? provider.signOutUrl() : undefined;
  return html`${
    isEnded &&
    html`<p class="notice" role="status">
      You are logged out of crmsync. ${end && html`<a href="${end}">Log out of ${host}, too</a>`}
    </p>`
  }
  ${
    why === undefined
      ? html`<p><a class="button main" href="${start}">Sign in with ${host}</a></p>`
      : html`<p class="notice bad" role="alert">Sign-in with ${host} does not work now: ${why}.</p>`
  }`;
}

const tokenForm = (next: string, proof: string): Html =>
  html`<form method="post" action="${LOGIN_PATH}" class="login">
      <input type="hidden" name="${FORM_FIELD}" value="${proof}" />
      <input type="hidden" name="next" value="${next}" />
      <label for="token">OPERATOR_TOKEN or VIEWER_TOKEN</label>
      <input
        type="password"
        id="token"
        name="token"
        required
        autofocus
        autocomplete="current-password"
      />
      <button class="main">Log in</button>
    </form>
    <p class="dim">OPERATOR_TOKEN may act, VIEWER_TOKEN may look.</p>`;

/** Only a page of the console: a path without dots, and a query in the characters of an address. */
export const nextOf = (text: string | undefined): string =>
  text !== undefined && /^\/console(?:\/[\w/-]*)?(?:\?[\w=&%.+~*:-]*)?$/.test(text) ? text : BASE;

export const cookieOptions = (request: FastifyRequest) => ({
  path: BASE,
  httpOnly: true,
  sameSite: "strict" as const,
  secure: isHttps(request),
});

/** A proxy may take the TLS off. What the client claims here binds only its own cookie. */
const isHttps = ({ protocol, headers }: FastifyRequest): boolean =>
  protocol === "https" ||
  /^https\b/i.test(String(headers["x-forwarded-proto"] ?? headers.origin ?? ""));
