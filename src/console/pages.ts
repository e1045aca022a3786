/** Serves pages, and the acts that bring the browser back to one. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { requireDecider, requireOperator, sessionOf } from "./access.ts";
import { html, pathTo, type Html, type Query } from "./html.ts";
import { layout, type Page } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { isSignedIn } from "./session.ts";

/** What was done, and the page that shows it: a reload of that repeats nothing. */
export interface Done {
  readonly says: string;
  readonly path: string;
  readonly query?: Query;
}

type Handler = (request: FastifyRequest) => Promise<Page | Done>;

export type Pages = ReturnType<typeof pagesOn>;

/** @param app whose requests have a session. */
export function pagesOn(app: FastifyInstance, { stores, version }: ConsolePorts) {
  const { APPROVALS, QUEUE_PREFIX: prefix } = stores.config;
  const answering = (handler: Handler) => async (request: FastifyRequest, reply: FastifyReply) => {
    const session = sessionOf(request);
    const answer = await handler(request);
    if ("says" in answer) {
      const { path, query, says } = answer;
      const proof = session.sign(`notice ${says}`);
      return reply.redirect(pathTo(path, { ...query, notice: says, proof }), 303);
    }
    const page = { ...answer, main: html`${noticeOf(request)}${answer.main}` };
    const frame = { session, version, prefix, hasApprovals: APPROVALS.length > 0 };
    return reply.type("text/html; charset=utf-8").send(String(layout(page, frame)));
  };
  return {
    app,
    show: (path: string, handler: Handler) => app.get(path, answering(handler)),
    /** A page on which an operator decides. */
    confirm: (path: string, handler: Handler) =>
      app.get(path, { onRequest: requireOperator }, answering(handler)),
    act: (path: string, handler: Handler) =>
      app.post(path, { onRequest: requireOperator }, answering(handler)),
    /** What only they may do who may decide about an approval. */
    decide: (path: string, handler: Handler) =>
      app.post(path, { onRequest: requireDecider }, answering(handler)),
  };
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

/** What a browser waits for, ms. */
const WAIT_MS = 5000;

/** What came of an act; undefined: it takes longer than a browser waits, and goes on after the answer. */
export const soon = <T>(act: Promise<T>): Promise<T | undefined> =>
  Promise.race([act, sleep(WAIT_MS, undefined)]);

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
