/**
 * Who may use /status, /records, /metrics and /queues: people who look, with VIEWER_TOKEN, and people who
 * act, with OPERATOR_TOKEN. While neither they nor an identity provider are configured, everybody may look.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { may, holderOf, type OpsTokens } from "../../base/person.ts";
import { headerText } from "./intake-guard.ts";
import type { CountRequest } from "./rate-limit.ts";
import { within } from "../../base/deadline.ts";
import { redisTrouble } from "../../base/redis-trouble.ts";
import { sharedReading } from "../../base/shared-reading.ts";

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

/** Process managers wait a second for /readyz, ms. */
const READY_MS = 800;

export interface HealthPorts {
  /** Why this process cannot accept events now; empty when it can. */
  notReady(): Promise<readonly string[]>;
  /** Why no changes are sent now, for instance a denial; empty when they are. */
  notSending(): Promise<readonly string[]>;
}

export function serveHealth(app: FastifyInstance, ports: HealthPorts): void {
  // Any response proves that the event loop runs.
  app.get("/livez", async () => ({ status: "ok" }));

  app.get("/readyz", async (_request, reply) => {
    const [reasons, notSending] = await Promise.all([
      within(READY_MS, ports.notReady()).catch(() => ["redis does not answer"]),
      within(READY_MS, ports.notSending()).catch(() => [`not known within ${READY_MS} ms`]),
    ]);
    // Changes that cannot be sent are stored, so the process stays ready for more events.
    if (reasons.length === 0) return reply.send({ status: "ready", reasons, notSending });
    return reply.code(503).send({ status: "not ready", reasons, notSending: [] });
  });
}

/** @param read is given the header Accept, by which a scraper asks for a format. */
export function serveMetrics(
  app: FastifyInstance,
  read: (accept: string | undefined) => Promise<{ readonly type: string; readonly text: string }>,
): void {
  app.get("/metrics", async (request, reply) => {
    const { type, text } = await read(request.headers.accept);
    return reply.type(type).send(text);
  });
}

export function serveStatus(app: FastifyInstance, read: () => Promise<object>): void {
  const current = sharedReading(read);
  app.get("/status", async (_request, reply) => {
    try {
      return await current();
    } catch (reason) {
      const { says, runbook } = redisTrouble(reason);
      return reply.code(503).send({ error: `The state is not known: ${says}.`, runbook });
    }
  });
}

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
