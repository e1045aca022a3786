import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Client, Environment } from "./directory.ts";
import { docsPage } from "./docs-page.ts";
import type { Door } from "./admission.ts";
import { openApiDocument } from "./openapi.ts";
import { RELATIONS_PAGE } from "./page-document.ts";
import { PAGE_SCRIPT } from "./page-script.ts";
import { PAGE_STYLE } from "./page-style.ts";
import type { Policy } from "./quota.ts";
import type { RelationView } from "./relation-view.ts";
import { error, json } from "./replies.ts";
import type { Reply } from "./replies.ts";
import type { RequestLog } from "./request-log.ts";
import { queryOf, send } from "./service.ts";
import type { UnknownFields } from "./validate-relation.ts";

interface Parts {
  readonly door: Door;
  readonly view: RelationView;
  readonly log: RequestLog;
  readonly environment: Environment;
  readonly policy: Policy;
  readonly unknownFields: UnknownFields;
}

const CONTENT_SECURITY_POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
  "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/** The sandbox's own pages. They read only, and what they read costs the client no quota. */
export function servePages(app: FastifyInstance, parts: Parts): void {
  const document = openApiDocument(parts.unknownFields);
  const documents = {
    "/": ["text/html; charset=utf-8", RELATIONS_PAGE],
    "/docs": ["text/html; charset=utf-8", docsPage(document)],
    "/openapi.json": ["application/json", JSON.stringify(document, null, 2)],
    "/assets/page.css": ["text/css; charset=utf-8", PAGE_STYLE],
    "/assets/page.js": ["text/javascript; charset=utf-8", PAGE_SCRIPT],
  } as const;
  for (const [url, [type, text]] of Object.entries(documents)) {
    app.get(url, (_request, reply) => {
      void reply
        .type(type)
        .headers({
          "content-security-policy": CONTENT_SECURITY_POLICY,
          "x-content-type-options": "nosniff",
          "referrer-policy": "no-referrer",
          "cache-control": "no-cache",
        })
        .send(text);
      return reply;
    });
  }

  const answer = (url: string, read: (client: Client, query: URLSearchParams) => Reply): void => {
    app.get(`/page/${url}`, (request: FastifyRequest, reply: FastifyReply) => {
      const admission = parts.door.admit(request.raw);
      reply.header("cache-control", "no-store");
      send(
        reply,
        admission.admitted ? read(admission.client, queryOf(request.originalUrl)) : admission.reply,
      );
      return reply;
    });
  };
  const { door, view, log, environment, policy } = parts;

  answer("overview", (client) => {
    const { limit, remaining, resetAtMs } = door.quota(client, Date.now());
    const quota = { limit, remaining, resetAt: new Date(resetAtMs).toISOString() };
    const relations = view.counts(client.tenantId);
    return json(200, { tenant: client.tenant, environment, policy, quota, relations });
  });
  answer("relations", (client, query) => {
    const before = Number(query.get("before") ?? Number.MAX_SAFE_INTEGER);
    if (!Number.isSafeInteger(before)) return error(422, "before must be an integer");
    const [search, type, status] = ["search", "type", "status"].map(
      (name) => query.get(name) ?? "",
    );
    const filter = { search: search!, type: type!, status: status!, before };
    return json(200, view.rows(client.tenantId, filter));
  });
  answer("relation", (client, query) => {
    const details = view.details(client.tenantId, query.get("crmCode") ?? "");
    return details === undefined ? error(404, "Business relation not found") : json(200, details);
  });
  answer("requests", (client) => json(200, { requests: log.last(client.tenantId) }));
}
