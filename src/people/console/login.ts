/** GET and POST /console/login with a token, POST /console/logout. */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { within } from "../../base/deadline.ts";
import { isOneOf } from "../../base/secrets.ts";
import { type Person, holderOf, personOf, rolesIn, sessionNames } from "../../base/person.ts";
import {
  actorNamed,
  COOKIE,
  cookieIn,
  cookieName,
  cookieOptions,
  FORM_FIELD,
  formOf,
  isHttps,
  refuseForeign,
  sessionOf,
  type ConsolePorts,
  openSession,
  SESSION_MS,
  openSignedIn,
  type Signer,
} from "./access.ts";
import { html, pathTo, type Html } from "./html.ts";
import { BASE, layout } from "./pages.ts";
import { ProviderError, type SignInProofs } from "../../base/identity-provider.ts";

const LOGIN_PATH = `${BASE}/login`;

/** Where a sign-in at the identity provider begins. */
const SIGN_IN_PATH = `${BASE}/sign-in`;

/** The cookie that a login form must be sent back with. */
const LOGIN_COOKIE = "crmsync_login";

/** How long Redis may take to note a login, ms. */
const REDIS_MS = 2500;

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
    const proof = cookieIn(request, LOGIN_COOKIE);
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
    // Of a proxy that names this machine as the host, the page alone tells that it came over TLS.
    const secure = isHttps(request);
    const isTls = secure || /^https:/i.test(request.headers.origin ?? "");
    return setSession(reply, cookie, secure, isTls).redirect(next, 303);
  });
}

/** Before the session begins: none is without its line in the audit trail. */
async function noteLogin(
  { ip }: FastifyRequest,
  { log, stores }: ConsolePorts,
  person: Person,
  details: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const { rights, via } = person;
  const said = { via, rights: [...rights], ...details };
  const by = actorNamed(person, ip);
  await within(REDIS_MS, stores.auditActs.record({ act: "console.login", by, details: said }));
  log({ kind: via, from: ip }, "console.login");
}

function setSession(
  reply: FastifyReply,
  cookie: string,
  secure: boolean,
  isTls = secure,
): FastifyReply {
  const options = { ...cookieOptions(isTls, BASE), maxAge: SESSION_MS / 1000 };
  return reply
    .clearCookie(cookieName(LOGIN_COOKIE, secure), cookieOptions(secure, BASE))
    .setCookie(cookieName(COOKIE, isTls), cookie, options);
}

/** @param app whose requests have a session. */
export function serveLogout(app: FastifyInstance, { log, stores }: ConsolePorts): void {
  app.post(`${BASE}/logout`, async (request, reply) => {
    const { id, person, until } = sessionOf(request);
    await within(REDIS_MS, stores.endedSessions.end(id, until - Date.now()));
    log({ kind: person.via, from: request.ip }, "console.logout");
    const path = person.via === "OIDC" ? pathTo(LOGIN_PATH, { ended: 1 }) : LOGIN_PATH;
    const secure = cookieName(COOKIE, true) in request.cookies;
    return reply
      .clearCookie(cookieName(COOKIE, secure), cookieOptions(secure, BASE))
      .redirect(path, 303);
  });
}

interface LoginForm {
  readonly status: number;
  readonly says?: string;
  readonly next: string;
  /** After a person from the identity provider has logged out. */
  readonly isEnded?: boolean;
}

async function sendForm(
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
  const secure = isHttps(request);
  const options = { ...cookieOptions(secure, BASE), maxAge: LOGIN_FORM_S };
  return reply
    .code(status)
    .type("text/html; charset=utf-8")
    .setCookie(cookieName(LOGIN_COOKIE, secure), proof, options)
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
const nextOf = (text: string | undefined): string =>
  text !== undefined && /^\/console(?:\/[\w/-]*)?(?:\?[\w=&%.+~*:-]*)?$/.test(text) ? text : BASE;

const CALLBACK_PATH = `${SIGN_IN_PATH}/callback`;

/** The cookie that ties a sign-in to the browser that has begun it. */
const SIGN_IN_COOKIE = "crmsync_sign_in";

/** How long a person may take to sign in, ms. */
const SIGN_IN_MS = 600_000;

/** Nobody is signed in. Its message says why. */
class RefusedSignIn extends Error {}

export function serveSignIn(app: FastifyInstance, ports: ConsolePorts): void {
  const { log, provider, stores } = ports;
  if (provider === undefined) return;
  // Not by the request: a proxy may not say that it took the TLS off.
  const secure = provider.addressOf(BASE).startsWith("https:");
  /** Lax: the browser comes back from another site. */
  const signInCookie = {
    ...cookieOptions(secure, SIGN_IN_PATH),
    sameSite: "lax" as const,
    maxAge: SIGN_IN_MS / 1000,
  };
  const cookieNamed = cookieName(SIGN_IN_COOKIE, secure);

  app.get<{ Querystring: { next?: string } }>(SIGN_IN_PATH, async (request, reply) => {
    const next = nextOf(request.query.next);
    const { cookie, id } = beginSignIn(next, provider, Date.now());
    return orRefuse(request, reply, next, async () => {
      const url = await provider.signInUrl(CALLBACK_PATH, proofsOf(id, provider));
      return reply.setCookie(cookieNamed, cookie, signInCookie).redirect(url.href, 303);
    });
  });

  app.get<{ Querystring: { state?: string } }>(CALLBACK_PATH, async (request, reply) => {
    void reply.clearCookie(cookieNamed, signInCookie);
    const begun = readSignIn(request.cookies[cookieNamed], provider, Date.now());
    const { id = "", next = BASE } = begun ?? {};
    return orRefuse(request, reply, next, async () => {
      const proofs = proofsOf(id, provider);
      if (begun === undefined || !isOneOf(String(request.query.state), [proofs.state])) {
        throw new RefusedSignIn("It was not begun in this browser within the last ten minutes");
      }
      await ports.countLogin(request);
      const since = await within(REDIS_MS, stores.endedSessions.signInOnce(id, SIGN_IN_MS));
      if (since === undefined) throw new RefusedSignIn("It was used before");
      const claims = await provider.claimsFor(request.url, proofs);
      const person = personOf(claims, provider.roles, provider.issuer);
      if (person.rights.size === 0) {
        const roles = rolesIn(provider.roles).join(", ");
        throw new RefusedSignIn(
          `You are known as ${person.name}, and have no role here. In ${provider.roles.OIDC_CLAIM}, each of these gives one: ${roles}`,
        );
      }
      await noteLogin(request, ports, person, { subject: claims.sub });
      const ends = { knownAs: sessionNames(claims), since };
      const cookie = openSignedIn(person, ends, provider, Date.now());
      const main = html`<p>You are signed in as ${person.name}. <a href="${next}">Continue</a></p>`;
      // Not a redirect: the provider's page began this navigation, so the cookie would be left out.
      return setSession(reply, cookie, secure)
        .header("refresh", `0; url=${next}`)
        .type("text/html; charset=utf-8")
        .send(String(layout({ title: "Signed in", main })));
    });
  });

  app.post(`${BASE}/backchannel-logout`, async (request, reply) => {
    try {
      const { jti, names } = await provider.readLogout(formOf(request).get("logout_token") ?? "");
      const isNew = await within(
        REDIS_MS,
        stores.endedSessions.endAtProvider(names, jti, SESSION_MS),
      );
      if (!isNew) throw new RefusedSignIn("It was used before");
      log({ kind: "OIDC" }, "console.ended_by_provider");
      return reply.send();
    } catch (error) {
      const why = whyOf(error);
      log({ kind: "logout token", why, from: request.ip }, "console.refused");
      return reply.code(400).send({ error: "invalid_request", error_description: why });
    }
  });

  async function orRefuse(
    request: FastifyRequest,
    reply: FastifyReply,
    next: string,
    step: () => Promise<FastifyReply>,
  ): Promise<FastifyReply> {
    try {
      return await step();
    } catch (error) {
      const why = whyOf(error);
      log({ kind: "OIDC", why, from: request.ip }, "console.refused");
      const says = `This sign-in did not succeed, and nothing was opened. ${why}.`;
      return sendForm(request, reply, ports, { status: 403, says, next });
    }
  }
}

/** @throws every other error. */
function whyOf(error: unknown): string {
  if (error instanceof RefusedSignIn || error instanceof ProviderError) return error.message;
  throw error;
}

/** The cookie holds no secret: what the provider is sent is made from its id with a key. */
function beginSignIn(next: string, signer: Signer, now: number) {
  const id = randomBytes(18).toString("base64url");
  const head = `${id}.${now + SIGN_IN_MS}.${Buffer.from(next).toString("base64url")}`;
  return { id, cookie: `${head}.${signer.sign(`sign-in ${head}`)}` };
}

function readSignIn(cookie: string | undefined, signer: Signer, now: number) {
  const [, head = "", id = "", until, next = "", mac] =
    /^(([\w-]{24})\.(\d{13})\.([\w-]+))\.([\w-]{43})$/.exec(cookie ?? "") ?? [];
  if (!isOneOf(mac, [signer.sign(`sign-in ${head}`)]) || Number(until) <= now) return undefined;
  return { id, next: nextOf(Buffer.from(next, "base64url").toString()) };
}

const proofsOf = (id: string, signer: Signer): SignInProofs => ({
  state: signer.sign(`state ${id}`),
  nonce: signer.sign(`nonce ${id}`),
  verifier: signer.sign(`verifier ${id}`),
});
