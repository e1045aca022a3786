/** GET /console: the pages for those who own the data. Every address and form of it is below. */
import cookie from "@fastify/cookie";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { readFileSync } from "node:fs";
import { Refusal } from "../../intake/http/limits.ts";
import { isRedisTrouble, redisTrouble } from "../../base/redis-trouble.ts";
import { UserError } from "../../base/user-error.ts";
import { knownSessionOf, requireSession, type ConsolePorts } from "./access.ts";
import { serveApprovals } from "./approvals.ts";
import { serveAudit } from "./audit.ts";
import { serveBulk } from "./bulk.ts";
import { serveCertificate } from "./certificate.ts";
import { serveDead } from "./dead.ts";
import { serveHeld } from "./held.ts";
import { html } from "./html.ts";
import { BASE, frameOf, layout, pagesOn, tabAt } from "./pages.ts";
import { sendToLogin, serveLogin, serveLogout, serveSignIn } from "./login.ts";
import { serveNow } from "./now.ts";
import { serveRecordList } from "./record-list.ts";
import { serveRecordsTab } from "./records.ts";
import { runbookView, serveRunbook } from "./remedies.ts";
import { serveTry } from "./try.ts";
import { serveSources } from "./sources.ts";

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

/** Largest body of a form, bytes: a person may paste some records. */
const FORM_BODY = 256 * 1024;

const ASSETS = { "console.css": "text/css", "console.js": "text/javascript" } as const;

/** @param app on which `limitRate` was called. */
export function serveConsole(app: FastifyInstance, ports: ConsolePorts): void {
  void app.register(cookie);
  void app.register(async (scope) => {
    acceptForms(scope);
    scope.addHook("onSend", async (_request, reply) => {
      void reply.headers({
        "content-security-policy": CONTENT_SECURITY_POLICY,
        // With `no-referrer`, browsers name no origin when they send a form.
        "referrer-policy": "same-origin",
      });
    });
    scope.setErrorHandler((error, request, reply) => sendError(error, request, reply, ports));
    serveAssets(scope);
    void scope.register(async (open) => {
      serveLogin(open, ports);
      serveSignIn(open, ports);
    });
    void scope.register(async (closed) => {
      requireSession(closed, ports, sendToLogin);
      serveLogout(closed, ports);
      const pages = pagesOn(closed, ports);
      for (const serve of [
        serveNow,
        serveRecordsTab,
        serveRecordList,
        serveTry,
        serveDead,
        serveHeld,
        serveBulk,
        serveSources,
        serveAudit,
        serveCertificate,
        serveRunbook,
        serveApprovals,
      ])
        serve(pages, ports);
      closed.get(`${BASE}/*`, async () => {
        throw new Refusal(404, "There is no such page.");
      });
    });
  });
}

/** Nothing but forms is accepted. */
function acceptForms(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string", bodyLimit: FORM_BODY },
    async (_request: unknown, body: string) => new URLSearchParams(body),
  );
}

function serveAssets(scope: FastifyInstance): void {
  for (const [name, type] of Object.entries(ASSETS)) {
    const text = readFileSync(new URL(`./page/${name}`, import.meta.url), "utf8");
    scope.get(`${BASE}/assets/${name}`, async (_request, reply) =>
      reply.type(`${type}; charset=utf-8`).send(text),
    );
  }
}

const ERRORS: Readonly<Record<number, string>> = { 404: "Not found", 503: "Not known" };

function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  ports: ConsolePorts,
): FastifyReply {
  const { runbook, status, says } = describe(error);
  if (status === 500) ports.defect(error);
  if (error instanceof Refusal) void reply.headers(error.headers);
  // Messages of commands begin small.
  const sentence = says.charAt(0).toUpperCase() + says.slice(1);
  const notice = html`<p class="notice bad" role="alert">${sentence}</p>`;
  const back = html`<p><a href="${BASE}">Back to the console</a></p>`;
  const title = ERRORS[status] ?? "Not done";
  // The address of a form cannot be asked again.
  const page =
    runbook === undefined || request.method !== "GET"
      ? { title, main: html`${notice}${back}` }
      : {
          title,
          tab: tabAt(request.url),
          heading: "The state is not known now",
          trouble: `${sentence} This page comes back by itself.`,
          main: runbookView(runbook, "do", { isOpen: true }),
        };
  const session = knownSessionOf(request);
  return reply
    .code(status)
    .type("text/html; charset=utf-8")
    .send(String(layout(page, session && frameOf(session, ports))));
}

interface Described {
  readonly status: number;
  readonly says: string;
  /** Its section, if the state cannot be read. */
  readonly runbook?: string;
}

function describe(error: unknown): Described {
  if (error instanceof Refusal) return { status: error.statusCode, says: error.message };
  if (error instanceof UserError) return { status: 400, says: `${error.message}.` };
  const status = (error as { statusCode?: number }).statusCode;
  if (status !== undefined && status < 500) {
    return { status, says: "The request is not one that a page of the console sends." };
  }
  if (isRedisTrouble(error)) {
    const { says, runbook } = redisTrouble(error);
    return { status: 503, says: `The state is not known: ${says}.`, runbook };
  }
  return { status: 500, says: "Something went wrong inside crmsync: see http.defect in its log." };
}
