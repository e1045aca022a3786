/**
 * GET /queues: bull-board, read-only. An allow-list decides which fields of a job are shown, since
 * other clients may add jobs with personal data in any field.
 */
import { crmsync } from "../../base/command.ts";
import { createHash } from "node:crypto";
import { createBoard } from "./bull-board.ts";
import type { FastifyInstance } from "fastify";

const PREFIX = "/queues";

/** A frozen Redis keeps no request waiting longer, ms. */
const DEADLINE_MS = 5000;

/** Allows nothing from other hosts; the page works without the web fonts it asks for. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  // The hash allows one style sheet that a library of the page adds by script.
  "style-src 'self' 'sha256-r2N1TB/gHbBtBZFKg7ejmq1acVSREzucTAEw6ga4hoU='",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'self'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

export interface QueuesPorts {
  /** The queues shown; `describe` returns what may be shown of a job's data. */
  readonly queues: readonly {
    readonly queue: Parameters<typeof createBoard>[1][number];
    readonly describe: Describe;
  }[];
}

type Fields = Readonly<Record<string, unknown>>;
type Describe = (data: unknown) => Fields;
type Describers = ReadonlyMap<string, Describe>;

/** @param app checks who may look. */
export async function serveQueues(app: FastifyInstance, ports: QueuesPorts): Promise<void> {
  const describers = new Map(ports.queues.map(({ queue, describe }) => [queue.name, describe]));
  const board = createBoard(
    PREFIX,
    ports.queues.map(({ queue }) => queue),
    (body, queue) => cleanBody(body, queue, describers),
  );
  await app.register(async (scope) => {
    scope.addHook("onRoute", (route) => {
      route.handlerTimeout = DEADLINE_MS;
    });
    scope.addHook("onRequest", async (request, reply) => {
      if (request.method !== "GET" && request.method !== "HEAD") {
        return reply.code(405).send({ error: "this page is read-only" });
      }
      // A job's logs and flow may hold any text.
      if (/\/(logs|flow)$/.test(request.routeOptions.url ?? "")) return reply.send([]);
      return undefined;
    });
    scope.addHook("onSend", async (_request, reply) => {
      void reply.header("content-security-policy", CONTENT_SECURITY_POLICY);
    });
    await scope.register(board, { prefix: PREFIX });
  });
}

/** Removes from a response of the API everything about jobs that must not be shown. */
function cleanBody(body: unknown, queue: string | undefined, describers: Describers): unknown {
  if (typeof body !== "object" || body === null) return body;
  const { queues, job } = body as { queues?: unknown; job?: unknown };
  if (Array.isArray(queues)) {
    const shown = (queues as Fields[]).map((queue) => {
      const describe = describers.get(String(queue["name"]));
      const jobs = Array.isArray(queue["jobs"]) ? (queue["jobs"] as Fields[]) : [];
      return { ...queue, jobs: jobs.map((each) => cleanJob(each, describe)) };
    });
    return { ...body, queues: shown };
  }
  if (job === undefined) return body;
  return { ...body, job: cleanJob(job as Fields, describers.get(queue ?? "")) };
}

function cleanJob(job: Fields, describe: Describe | undefined): Fields {
  const number = (name: string) => (typeof job[name] === "number" ? job[name] : undefined);
  const id = String(job["id"]);
  const failed = job["isFailed"] === true;
  return {
    // An id that the sender chose may contain a name: show its hash.
    id: /^\d{1,15}$/.test(id) ? id : createHash("sha256").update(id).digest("hex").slice(0, 12),
    name: "job",
    data: describe?.(job["data"]) ?? {},
    timestamp: number("timestamp"),
    processedOn: number("processedOn"),
    finishedOn: number("finishedOn"),
    attempts: number("attempts"),
    delay: number("delay"),
    priority: number("priority"),
    stalledCounter: number("stalledCounter"),
    progress: 0,
    opts: {},
    returnValue: null,
    stacktrace: [],
    isFailed: failed,
    failedReason: failed ? `see ${crmsync`dead list`}, and the log` : undefined,
  };
}
