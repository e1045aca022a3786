/** Who may open the console: checks the session of each request, and each form. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal } from "../http/refusal.ts";
import { may, type Person } from "../people/person.ts";
import { isSignedIn, readSession, type Session } from "./session.ts";
import type { ConsolePorts } from "./ports.ts";

export const COOKIE = "crmsync_console";

/** The field of every form that proves that this console has made it. */
export const FORM_FIELD = "form";

const sessions = new WeakMap<FastifyRequest, Session>();

/** The session of a request that `requireSession` has let pass. */
export function sessionOf(request: FastifyRequest): Session {
  const session = sessions.get(request);
  if (session === undefined) throw new Error("the request has no session");
  return session;
}

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
    const session = readSession(request.cookies[COOKIE], ports, Date.now());
    const sender = session && `console ${session.person.via} ${session.person.name ?? ""}`;
    await ports.count(request, sender);
    if (session === undefined || (await ports.isEnded(session)))
      return sendToLogin(request, reply, ports);
    sessions.set(request, session);
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

/** @throws Refusal for a session that may only look; src/approvals says what the others may. */
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
  `${person.name ?? (may(person, "act") ? "operator" : "viewer")} via console at ${address}`;
