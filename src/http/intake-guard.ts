/** What every request to HTTP intake must pass before its body is read. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Overload } from "../ops/overload.ts";
import { createBodyReader, type BodyReader } from "./bodies.ts";
import type { CountRequest } from "./rate-limit.ts";
import { Refusal } from "./refusal.ts";

export interface IntakeGuard {
  /**
   * @param sender the name of a sender whose credentials are verified already, else undefined.
   * @throws Refusal
   */
  admit(
    request: FastifyRequest,
    reply: FastifyReply,
    sender: string | undefined,
    tooFast?: 429 | 503,
  ): Promise<void>;
  /** A parser of fastify for the bodies of admitted requests. */
  readonly bodiesUpTo: BodyReader["upTo"];
  /** A hook of fastify: the handler of an admitted request begins when few others are under way. */
  readonly turn: BodyReader["turn"];
}

export function createIntakeGuard(
  app: FastifyInstance,
  count: CountRequest,
  refused: (why: Overload) => void,
): IntakeGuard {
  const bodies = createBodyReader(app.server, () => refused("bodies"));
  return {
    async admit(request, reply, sender, tooFast) {
      await count(request, sender, tooFast);
      refuseEncoded(request);
      bodies.expect(request, reply, sender !== undefined);
    },
    bodiesUpTo: bodies.upTo,
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
