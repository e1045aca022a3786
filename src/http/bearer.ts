import type { FastifyReply, FastifyRequest } from "fastify";
import { isOneOf, secretsOf, type SecretText } from "../ops/secrets.ts";
import { headerText } from "./header-text.ts";

/** Whether the request carries one of the tokens as its bearer token. */
export function hasToken(request: FastifyRequest, token: SecretText | undefined): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(headerText(request.headers.authorization ?? ""))?.[1];
  return isOneOf(given, secretsOf(token));
}

export async function sendUnauthorised(reply: FastifyReply, error: string): Promise<void> {
  await reply.code(401).header("www-authenticate", "Bearer").send({ error });
}
