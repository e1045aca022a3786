/** Serves pages, and the acts that bring the browser back to one. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  requireDecider,
  requireOperator,
  sessionOf,
  type ConsolePorts,
  isSignedIn,
  FORM_FIELD,
  formProof,
  type Session,
} from "./access.ts";
import { html, pathTo, type Html, type Query, type Value } from "./html.ts";
import { may, type Person } from "../people/person.ts";

export const BASE = "/console";

const TABS = {
  now: "Now",
  records: "Records",
  dead: "Dead letters",
  held: "Held",
  bulk: "Imports",
  sources: "Sources",
  audit: "Audit",
  approvals: "Approvals",
} as const;

export type Tab = keyof typeof TABS;

export interface Page {
  readonly title: string;
  readonly tab?: Tab;
  /** Stands for the title on the page itself, and follows the state. */
  readonly heading?: Value;
  readonly main: Html;
  /** What was searched for. */
  readonly search?: string;
}

export const tabPath = (tab: Tab): string => (tab === "now" ? BASE : `${BASE}/${tab}`);

/** To the page of a record. @param name its crmCode, or its name in the CRM. */
export const recordLink = (name: string, text: Value = name): Html =>
  html`<a href="${pathTo(tabPath("records"), { name })}">${text}</a>`;

/** What stands around a page of a session. */
interface Frame {
  readonly session: Session;
  readonly version: string;
  readonly prefix: string;
  /** Whether acts need a second person here. */
  readonly hasApprovals: boolean;
}

/** @param frame left out: a page without navigation. */
export const layout = (page: Page, frame?: Frame): Html =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${page.title} · crmsync</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${BASE}/assets/console.css" />
        <script type="module" src="${BASE}/assets/console.js"></script>
      </head>
      <body data-now="${Date.now()}">
        <a class="skip" href="#main">Skip to the content</a>
        ${frame === undefined ? html`<header><p class="brand">crmsync</p></header>` : header(frame, page)}
        <main id="main" tabindex="-1">
          ${page.heading === undefined ? html`<h1>${page.title}</h1>` : live("heading", html`<h1>${page.heading}</h1>`)}
          ${page.main}
        </main>
        ${frame && footer(frame)}
      </body>
    </html> `;

/** On a phone, the button opens the list of pages: it needs no script. */
const header = ({ hasApprovals, session }: Frame, { search = "", tab: current }: Page): Html =>
  html`<header>
    <p class="brand">crmsync</p>
    <button type="button" class="menu" popovertarget="pages">
      <span aria-hidden="true">☰</span> ${current === undefined ? "Pages" : TABS[current]}
    </button>
    <nav id="pages" popover aria-label="Pages">
      <ul>
        ${tabsOf(hasApprovals || current === "approvals").map(
          (tab) =>
            html`<li>
              <a href="${tabPath(tab)}" ${tab === current ? html` aria-current="page"` : ""}
                >${TABS[tab]}</a
              >
            </li>`,
        )}
      </ul>
    </nav>
    <form action="${tabPath("records")}" class="find" role="search">
      <input
        type="search"
        name="name"
        value="${search}"
        aria-label="Find a record by its crmCode or its name in the CRM"
        placeholder="crmCode or contact/7"
        required
        maxlength="500"
      />
    </form>
    ${postForm(session, `${BASE}/logout`, html`<button>Log out</button>`)}
  </header>`;

const tabsOf = (hasApprovals: boolean): Tab[] =>
  (Object.keys(TABS) as Tab[]).filter((tab) => tab !== "approvals" || hasApprovals);

const footer = ({ prefix, session, version }: Frame): Html =>
  html`<footer>
    <p>${whoText(session.person)} crmsync ${version}, tenant <code>${prefix}</code>.</p>
    <p id="refresh" role="status">Reload the page to see newer data.</p>
  </footer>`;

function whoText(person: Person): string {
  const { name = "You", via } = person;
  const also = (["act", "approve"] as const).filter((right) => may(person, right));
  // Nobody can tell who holds a token without a name.
  const rights = ["look", ...also].filter(
    (right) => right !== "approve" || person.names.length > 0,
  );
  return `${name} may ${rights.join(", ").replace(/, (\w+)$/, " and $1")} (${via}).`;
}

/** A form that acts. @param path with everything that must come back unchanged. */
export const postForm = (session: Session, path: string, content: Html): Html =>
  html`<form method="post" action="${path}">
    <input type="hidden" name="${FORM_FIELD}" value="${formProof(session)}" />${content}
  </form>`;

/** A part that the script replaces by its newer state, but not while a person types in it. */
export const live = (id: string, content: Value): Html =>
  html`<div id="${id}" data-live>${content}</div>`;

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
