/**
 * Who may use /status, /records, /metrics and /queues: people who look, with VIEWER_TOKEN, and people who
 * act, with OPERATOR_TOKEN. While neither they nor an identity provider are configured, everybody may look.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { may, holderOf, type OpsTokens } from "../people/person.ts";
import { headerText } from "./intake-guard.ts";
import type { CountRequest } from "./rate-limit.ts";

/** Checks the token of every request to this scope. @param isOpen whether everybody may look. */
export function protectOps(
  scope: FastifyInstance,
  tokens: OpsTokens,
  count: CountRequest,
  isOpen: boolean,
): void {
  scope.addHook("onRequest", async (request, reply) => {
    const holder = holderOf(tokenIn(request), tokens);
    await count(request, holder?.person.via);
    if (holder === undefined && !isOpen) return sendUnauthorised(reply);
    if (
      holder !== undefined &&
      !may(holder.person, "act") &&
      request.method !== "GET" &&
      request.method !== "HEAD"
    ) {
      return reply.code(403).send({ error: "VIEWER_TOKEN may only look: send OPERATOR_TOKEN" });
    }
    return undefined;
  });
}

/** A bearer token, or the password of HTTP Basic with any user name. */
function tokenIn(request: FastifyRequest): string | undefined {
  const [scheme = "", value = ""] = headerText(request.headers.authorization ?? "").split(/ +/);
  switch (scheme.toLowerCase()) {
    case "basic":
      return Buffer.from(value, "base64")
        .toString("utf8")
        .replace(/^[^:]*:/, "");
    case "bearer":
      return value;
    default:
      return undefined;
  }
}

function sendUnauthorised(reply: FastifyReply): FastifyReply {
  return reply
    .code(401)
    .header("www-authenticate", 'Basic realm="crmsync", charset="UTF-8"')
    .send({ error: "send VIEWER_TOKEN or OPERATOR_TOKEN as the password, or as a bearer token" });
}
