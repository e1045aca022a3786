import type { FastifyReply, FastifyRequest } from "fastify";
import { isOneOf, secretsOf, type SecretText } from "./secrets.ts";

/** Whether the request shows one of the tokens as a bearer. */
export function showsToken(request: FastifyRequest, token: SecretText | undefined): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(request.headers.authorization ?? "")?.[1];
  return isOneOf(given, secretsOf(token));
}

/**
 * A hook that lets only the bearer of a token pass.
 * @param name of the variable that sets it, for the one who reads the refusal.
 */
function bearerCheck(token: SecretText | undefined, name: string) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (showsToken(request, token)) return;
    const error =
      token === undefined
        ? `no ${name} is configured, so nobody may come in here`
        : "the bearer token is missing or wrong";
    await refuse(reply, error);
  };
}

export async function refuse(reply: FastifyReply, error: string): Promise<void> {
  await reply.code(401).header("www-authenticate", "Bearer").send({ error });
}
