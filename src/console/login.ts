/** GET and POST /console/login, POST /console/logout. */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isOneOf } from "../ops/secrets.ts";
import { COOKIE, FORM_FIELD, formOf, refuseForeign, sessionOf } from "./access.ts";
import { html, pathTo, type Html } from "./html.ts";
import { BASE, layout } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { openSession, SESSION_MS } from "./session.ts";

const LOGIN_PATH = `${BASE}/login`;

/** The cookie that a login form must be sent back with. */
const LOGIN_COOKIE = "crmsync_login";

/** How long a login form can be used, s. */
const LOGIN_FORM_S = 3600;

/** Sends a request without a session to the login, and from there back to its page. */
export function sendToLogin(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (request.method === "GET" || request.method === "HEAD") {
    return reply.redirect(pathTo(LOGIN_PATH, { next: request.url }), 303);
  }
  return sendForm(request, reply, {
    status: 401,
    says: "Your session has ended, so nothing was done. Log in and repeat.",
    next: BASE,
  });
}

export function serveLogin(app: FastifyInstance, ports: ConsolePorts): void {
  const { count, countLogin, tokens } = ports;
  app.addHook("onRequest", (request) => count(request, undefined));
  app.get<{ Querystring: { next?: string } }>(LOGIN_PATH, (request, reply) =>
    sendForm(request, reply, { status: 200, next: nextOf(request.query.next) }),
  );
  app.post(LOGIN_PATH, async (request, reply) => {
    refuseForeign(request);
    await countLogin(request);
    const form = formOf(request);
    const next = nextOf(form.get("next") ?? undefined);
    const proof = request.cookies[LOGIN_COOKIE];
    if (proof === undefined || !isOneOf(form.get(FORM_FIELD) ?? "", [proof])) {
      const says = "This form is too old, or the browser keeps no cookies. Try again.";
      return sendForm(request, reply, { status: 403, says, next });
    }
    const cookie = openSession((form.get("token") ?? "").trim(), tokens, Date.now());
    if (cookie === undefined) {
      const says = "This is neither OPERATOR_TOKEN nor VIEWER_TOKEN.";
      return sendForm(request, reply, { status: 401, says, next });
    }
    return reply
      .clearCookie(LOGIN_COOKIE, cookieOptions(request))
      .setCookie(COOKIE, cookie, { ...cookieOptions(request), maxAge: SESSION_MS / 1000 })
      .redirect(next, 303);
  });
}

/** @param app whose requests have a session. */
export function serveLogout(app: FastifyInstance, { stores }: ConsolePorts): void {
  app.post(`${BASE}/logout`, async (request, reply) => {
    const { id, until } = sessionOf(request);
    await stores.endedSessions.end(id, until - Date.now());
    return reply.clearCookie(COOKIE, cookieOptions(request)).redirect(LOGIN_PATH, 303);
  });
}

interface LoginForm {
  readonly status: number;
  readonly says?: string;
  readonly next: string;
}

function sendForm(request: FastifyRequest, reply: FastifyReply, form: LoginForm): FastifyReply {
  const proof = randomBytes(18).toString("base64url");
  return reply
    .code(form.status)
    .type("text/html; charset=utf-8")
    .setCookie(LOGIN_COOKIE, proof, { ...cookieOptions(request), maxAge: LOGIN_FORM_S })
    .send(String(layout({ title: "Log in", main: loginForm(form, proof) })));
}

const loginForm = ({ says, next }: LoginForm, proof: string): Html =>
  html` ${says === undefined ? "" : html`<p class="notice bad" role="alert">${says}</p>`}
    <form method="post" action="${LOGIN_PATH}" class="login">
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
    <p class="dim">
      OPERATOR_TOKEN may act, VIEWER_TOKEN may look. The session ends after
      ${SESSION_MS / 3_600_000} hours.
    </p>`;

/** Only a page of the console: a path without dots, and a query in the characters of an address. */
const nextOf = (text: string | undefined): string =>
  text !== undefined && /^\/console(?:\/[\w/-]*)?(?:\?[\w=&%.+~*:-]*)?$/.test(text) ? text : BASE;

const cookieOptions = (request: FastifyRequest) => ({
  path: BASE,
  httpOnly: true,
  sameSite: "strict" as const,
  secure: isHttps(request),
});

/** A proxy may take the TLS off. What the client claims here binds only its own cookie. */
const isHttps = ({ protocol, headers }: FastifyRequest): boolean =>
  protocol === "https" ||
  /^https\b/i.test(String(headers["x-forwarded-proto"] ?? headers.origin ?? ""));
