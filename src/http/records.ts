/** GET /records/{crmCode} and GET /records?subject=…: what `crmsync why --json` prints. */
import type { FastifyInstance, FastifyReply } from "fastify";
import { within } from "../ops/deadline.ts";
import { redisTrouble } from "../ops/redis-trouble.ts";

/** Redis must answer within this time, ms. */
const DEADLINE_MS = 5000;

interface Told {
  /** `unknown`: nothing is known of it. */
  readonly fate: string;
  readonly answer: string;
}

/** @param read the story of a crmCode, or of a record in the CRM. */
export function serveRecords(app: FastifyInstance, read: (name: string) => Promise<Told>): void {
  async function tell(name: string, reply: FastifyReply): Promise<unknown> {
    try {
      const story = await within(DEADLINE_MS, read(name));
      if (story.fate !== "unknown") return story;
      return await reply.code(404).send({ error: story.answer, ...story });
    } catch (reason) {
      const { says, runbook } = redisTrouble(reason);
      return reply.code(503).send({ error: `The state is not known: ${says}.`, runbook });
    }
  }

  app.get<{ Params: { name: string } }>("/records/:name", (request, reply) =>
    tell(request.params.name, reply),
  );
  app.get<{ Querystring: { subject?: unknown } }>("/records", async (request, reply) => {
    const { subject } = request.query;
    if (typeof subject === "string" && /^[^/]+\/.+$/.test(subject)) return tell(subject, reply);
    const error =
      "subject must be <object>/<recordId>, given once; for a crmCode GET /records/<crmCode>";
    return reply.code(400).send({ error });
  });
}
