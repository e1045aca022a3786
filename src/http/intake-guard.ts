/** What every request to HTTP intake must pass before its body is read. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Overload } from "../ops/overload.ts";
import { createBodyReader } from "./bodies.ts";
import type { CountRequest } from "./rate-limit.ts";
import { Refusal } from "./refusal.ts";
import { isOneOf, secretsOf, type SecretText } from "../ops/secrets.ts";
import { isUtf8 } from "node:buffer";

/** Node reads headers as Latin-1, and many senders write UTF-8. What is no valid UTF-8 stays as Node has read it. */
export function headerText(value: string): string {
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}

export type IntakeGuard = ReturnType<typeof createIntakeGuard>;

export function createIntakeGuard(
  app: FastifyInstance,
  count: CountRequest,
  refused: (why: Overload) => void,
) {
  const bodies = createBodyReader(app.server, () => refused("bodies"));
  return {
    /**
     * @param sender the name of a sender whose credentials are verified already, else undefined.
     * @throws Refusal
     */
    async admit(
      request: FastifyRequest,
      reply: FastifyReply,
      sender: string | undefined,
      tooFast?: 429 | 503,
    ): Promise<void> {
      await count(request, sender, tooFast);
      refuseEncoded(request);
      bodies.expect(request, reply, sender !== undefined);
    },
    /** A parser of fastify for the bodies of admitted requests. */
    bodiesUpTo: bodies.upTo,
    /** A hook of fastify: the handler of an admitted request begins when few others are under way. */
    turn: bodies.turn,
  };
}

/** A small compressed body can become a very large one; no known sender compresses. */
function refuseEncoded({ headers }: FastifyRequest): void {
  const encoding = headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity") return;
  throw new Refusal(415, "Content-Encoding must be identity: send the body uncompressed", {
    "accept-encoding": "identity",
  });
}

/** Whether the request carries one of the tokens as its bearer token. */
export function hasToken(request: FastifyRequest, token: SecretText | undefined): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(headerText(request.headers.authorization ?? ""))?.[1];
  return isOneOf(given, secretsOf(token));
}

export async function sendUnauthorised(reply: FastifyReply, error: string): Promise<void> {
  await reply.code(401).header("www-authenticate", "Bearer").send({ error });
}
