/** Answers a request with a page, or brings the browser back to one after an act. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { sessionOf } from "./access.ts";
import { html, pathTo, type Html } from "./html.ts";
import { layout, type Page } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { isSignedIn } from "./session.ts";

type Query = Readonly<Record<string, string | number>>;

export function sendPage(
  request: FastifyRequest,
  reply: FastifyReply,
  { stores, version }: ConsolePorts,
  page: Page,
): FastifyReply {
  const session = sessionOf(request);
  const main = html`${noticeOf(request)}${page.main}`;
  const { APPROVALS, QUEUE_PREFIX: prefix } = stores.config;
  const frame = { session, version, prefix, hasApprovals: APPROVALS.length > 0 };
  return reply.type("text/html; charset=utf-8").send(String(layout({ ...page, main }, frame)));
}

/** After an act: a reload repeats nothing. @param says what was done. */
export function sendBack(
  request: FastifyRequest,
  reply: FastifyReply,
  path: string,
  says: string,
  query: Query = {},
): FastifyReply {
  const notice = { notice: says, proof: sessionOf(request).sign(`notice ${says}`) };
  return reply.redirect(pathTo(path, { ...query, ...notice }), 303);
}

/** Shows a notice only if this session has signed it: a foreign link cannot make the console say something. */
function noticeOf(request: FastifyRequest): Html | string {
  const { notice, proof } = queryOf(request);
  if (notice === undefined || !isSignedIn(sessionOf(request), `notice ${notice}`, proof)) return "";
  return html`<p class="notice good" role="status">${notice}</p>`;
}

/** Whether the page comes after an act: it must show what the act has changed. */
export const isAfterAct = (request: FastifyRequest): boolean =>
  queryOf(request)["notice"] !== undefined;

/** A name that occurs twice counts with its last value. */
export const queryOf = (request: FastifyRequest): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(new URL(request.url, "http://console").searchParams);

/** Rows of a long list on one page. */
export const ROWS = 50;

/** The number of a page, from 1. */
export function pageNumberOf(request: FastifyRequest): number {
  const number = Number(queryOf(request)["page"] ?? 1);
  return Number.isSafeInteger(number) && number >= 1 && number <= 1_000_000 ? number : 1;
}

export function pager(path: string, query: Query, number: number, last: number): Html | string {
  if (last <= 1) return "";
  const link = (page: number, text: string, rel: string) =>
    page < 1 || page > last
      ? ""
      : html`<a href="${pathTo(path, { ...query, page })}" rel="${rel}">${text}</a>`;
  return html`<nav aria-label="Pages of this list" class="pager">
    ${link(number - 1, "Previous rows", "prev")}<span>Page ${number} of ${last}</span
    >${link(number + 1, "Next rows", "next")}
  </nav>`;
}
