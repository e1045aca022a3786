/**
 * Signs people in at the identity provider: GET /console/sign-in sends them there, …/callback is where they come
 * back, and with POST /console/backchannel-logout the provider ends sessions.
 */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isOneOf } from "../ops/secrets.ts";
import { ProviderError, type SignInProofs } from "../people/identity-provider.ts";
import { personOf, rolesIn, sessionNames } from "../people/signed-in.ts";
import { formOf } from "./access.ts";
import { html } from "./html.ts";
import { BASE, layout } from "./layout.ts";
import { cookieOptions, nextOf, noteLogin, sendForm, setSession, SIGN_IN_PATH } from "./login.ts";
import type { ConsolePorts } from "./ports.ts";
import { openSignedIn, SESSION_MS, type Signer } from "./session.ts";

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
    path: SIGN_IN_PATH,
    httpOnly: true,
    sameSite: "lax" as const,
    secure,
    maxAge: SIGN_IN_MS / 1000,
  };

  app.get<{ Querystring: { next?: string } }>(SIGN_IN_PATH, async (request, reply) => {
    const next = nextOf(request.query.next);
    const { cookie, id } = beginSignIn(next, provider, Date.now());
    return orRefuse(request, reply, next, async () => {
      const url = await provider.signInUrl(CALLBACK_PATH, proofsOf(id, provider));
      return reply.setCookie(SIGN_IN_COOKIE, cookie, signInCookie).redirect(url.href, 303);
    });
  });

  app.get<{ Querystring: { state?: string } }>(CALLBACK_PATH, async (request, reply) => {
    void reply.clearCookie(SIGN_IN_COOKIE, signInCookie);
    const begun = readSignIn(request.cookies[SIGN_IN_COOKIE], provider, Date.now());
    const { id = "", next = BASE } = begun ?? {};
    return orRefuse(request, reply, next, async () => {
      const proofs = proofsOf(id, provider);
      if (begun === undefined || !isOneOf(String(request.query.state), [proofs.state])) {
        throw new RefusedSignIn("It was not begun in this browser within the last ten minutes");
      }
      await ports.countLogin(request);
      const since = await stores.endedSessions.signInOnce(id, SIGN_IN_MS);
      if (since === undefined) throw new RefusedSignIn("It was used before");
      const claims = await provider.claimsFor(request.url, proofs);
      const person = personOf(claims, provider.roles);
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
      return setSession(reply, cookie, { ...cookieOptions(request), secure })
        .header("refresh", `0; url=${next}`)
        .type("text/html; charset=utf-8")
        .send(String(layout({ title: "Signed in", main })));
    });
  });

  app.post(`${BASE}/backchannel-logout`, async (request, reply) => {
    try {
      const { jti, names } = await provider.readLogout(formOf(request).get("logout_token") ?? "");
      const isNew = await stores.endedSessions.endAtProvider(names, jti, SESSION_MS);
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
