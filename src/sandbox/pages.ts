import { readFileSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import type { FastifyInstance } from "fastify";
import { COMPANY_TYPES, PERSON_TYPE, RELATION_STATUSES } from "../core/service-spec/value-lists.ts";
import type { Admission } from "./admission.ts";
import type { Client, Environment } from "./directory.ts";
import { openApiDocument } from "./openapi.ts";
import type { Overview, RelationDetails, RelationList, RequestList } from "./page/page-data.ts";
import type { Policy } from "./quota.ts";
import { countRelations, listRelations, relationDetails } from "./relation-view.ts";
import type { RequestLog } from "./request-log.ts";
import { error, json, type ServiceResponse } from "./responses.ts";
import { queryOf, send } from "./service.ts";
import type { UnknownFields } from "./validate-relation.ts";

interface PageDependencies {
  readonly admission: Admission;
  readonly database: DatabaseSync;
  readonly log: RequestLog;
  readonly environment: Environment;
  readonly policy: Policy;
  readonly unknownFields: UnknownFields;
}

const DOCUMENT_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
};

/** The sandbox's own pages. They only read, and reading costs the client no quota. */
export function servePages(app: FastifyInstance, dependencies: PageDependencies): void {
  serveDocuments(app, dependencies.unknownFields);
  serveData(app, dependencies);
}

function serveDocuments(app: FastifyInstance, unknownFields: UnknownFields): void {
  const documents = {
    "/": ["text/html; charset=utf-8", relationsPage()],
    "/openapi.json": ["application/json", JSON.stringify(openApiDocument(unknownFields), null, 2)],
    "/assets/page.css": ["text/css; charset=utf-8", readAsset("page.css")],
    "/assets/page.js": ["text/javascript; charset=utf-8", readAsset("page.js")],
  } as const;
  for (const [url, [type, text]] of Object.entries(documents)) {
    app.get(url, (_request, reply) => reply.type(type).headers(DOCUMENT_HEADERS).send(text));
  }
}

/** Read-only. Its script fills it when it has a token. */
const relationsPage = (): string =>
  readAsset("page.html")
    .replace("<!-- types -->", optionsOf([PERSON_TYPE, ...COMPANY_TYPES]))
    .replace("<!-- statuses -->", optionsOf(RELATION_STATUSES));

/** @param values of the specification, which need no escape in HTML. */
const optionsOf = (values: readonly string[]): string =>
  values.map((value) => `<option>${value}</option>`).join("");

function readAsset(name: string): string {
  return readFileSync(new URL(`./page/${name}`, import.meta.url), "utf8");
}

/** The data that the script of the page reads; needs a token. */
function serveData(
  app: FastifyInstance,
  { admission, database, log, environment, policy }: PageDependencies,
): void {
  const serve = (
    name: string,
    read: (client: Client, query: URLSearchParams) => ServiceResponse,
  ): void => {
    app.get(`/page/${name}`, (request, reply) => {
      const result = admission.check(request.raw);
      void reply.header("cache-control", "no-store");
      if (!result.admitted) return send(reply, result.response);
      return send(reply, read(result.client, queryOf(request.originalUrl)));
    });
  };

  serve("overview", (client) => {
    const { limit, remaining, resetAtMs } = admission.quota(client, Date.now());
    const quota = { limit, remaining, resetAt: new Date(resetAtMs).toISOString() };
    const relations = countRelations(database, client.tenantId);
    const { tenant } = client;
    return json(200, { tenant, environment, policy, quota, relations } satisfies Overview);
  });
  serve("relations", (client, query) => {
    const before = Number(query.get("before") ?? Number.MAX_SAFE_INTEGER);
    if (!Number.isSafeInteger(before)) return error(422, "before must be an integer");
    const filter = {
      search: query.get("search") ?? "",
      type: query.get("type") ?? "",
      status: query.get("status") ?? "",
      before,
    };
    return json(200, listRelations(database, client.tenantId, filter) satisfies RelationList);
  });
  serve("relation", (client, query) => {
    const details = relationDetails(database, client.tenantId, query.get("crmCode") ?? "");
    if (details === undefined) return error(404, "Business relation not found");
    return json(200, details satisfies RelationDetails);
  });
  serve("requests", (client) =>
    json(200, { requests: log.last(client.tenantId) } satisfies RequestList),
  );
}
