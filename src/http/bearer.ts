import { createHash, timingSafeEqual } from "node:crypto";
import type { FastifyReply, FastifyRequest } from "fastify";

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/**
 * A hook that lets only the bearer of the token pass; compared in constant time.
 * @param name of the variable that sets it, for the one who reads the refusal.
 */
export function bearerCheck(token: (() => string) | undefined, open: boolean, name: string) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (open) return;
    const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
    const right =
      token !== undefined && given !== undefined && timingSafeEqual(digest(given), digest(token()));
    if (right) return;
    const error =
      token === undefined
        ? `no ${name} is configured, so nobody may send here (INGEST_AUTH=none opens it to all)`
        : "the bearer token is missing or wrong";
    await reply.code(401).header("www-authenticate", "Bearer").send({ error });
  };
}
