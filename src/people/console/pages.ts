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
  formOf,
  formProof,
  type Session,
} from "./access.ts";
import { isEnded, isOver } from "../../core/state/approvals.ts";
import { linkOf } from "../../intake/mapping/mapping-file.ts";
import { html, pathTo, type Column, type Html, type Query, type Value } from "./html.ts";
import { may, type Person } from "../../base/person.ts";

export const BASE = "/console";

const TABS = {
  now: "Now",
  records: "Records",
  dead: "Dead letters",
  held: "Held",
  bulk: "Imports",
  sources: "Sources",
  audit: "Audit",
  certificate: "Certificate",
  approvals: "Approvals",
} as const;

export type Tab = keyof typeof TABS;

export interface Page {
  readonly title: string;
  readonly tab?: Tab | undefined;
  /** Stands for the title on the page itself, and follows the state. */
  readonly heading?: Value;
  readonly main: Html;
  /** What was searched for. */
  readonly search?: string;
  /** Why the state is not known: stands above all else, and the script tries again until it is. */
  readonly trouble?: string;
  /** 200 where it is left out. */
  readonly status?: number;
}

export const tabPath = (tab: Tab): string => (tab === "now" ? BASE : `${BASE}/${tab}`);

/** @param url of a request; undefined: of no tab's own page. */
export const tabAt = (url: string): Tab | undefined =>
  (Object.keys(TABS) as Tab[]).find((tab) => tabPath(tab) === url.replace(/\?.*$/, ""));

/** To the page of a record. @param name its crmCode, or its name in the CRM. */
export const recordLink = (name: string, text: Value = name): Html =>
  html`<a href="${pathTo(tabPath("records"), { name })}">${text}</a>`;

/** To the record in its CRM, where the mapping tells its address. @param subject of its event; undefined: not known */
export function crmLink({ mapping }: ConsolePorts, subject: string | undefined): Html | false {
  const to = subject === undefined ? undefined : linkOf(mapping.links ?? new Map(), subject);
  return to !== undefined && inCrm(to, subject);
}

/** Of a list whose rows know no subject: it is found when a person follows the link (records.ts). */
export const recordCell = ({ mapping }: ConsolePorts, crmCode: string): Html =>
  html`${recordLink(crmCode)}${mapping.links && mapping.links.size > 0 && inCrm(pathTo(IN_CRM, { name: crmCode }), crmCode)}`;

const inCrm = (to: string, name: string | undefined): Html =>
  html` <a href="${to}" target="_blank" rel="noreferrer" aria-label="Open in CRM: ${name}"
    >Open in CRM</a
  >`;

/** Leads on to the record's page in the CRM. */
export const IN_CRM = `${tabPath("records")}/crm`;

/** What stands around a page of a session. */
export interface Frame {
  readonly session: Session;
  readonly version: string;
  readonly prefix: string;
  /** Whether acts need a second person here. */
  readonly hasApprovals: boolean;
  /** What waits for a person on a page; undefined: not known. */
  readonly counts?: Readonly<Partial<Record<Tab, number>>> | undefined;
}

export function frameOf(session: Session, { stores, version }: ConsolePorts): Frame {
  const { APPROVALS, QUEUE_PREFIX: prefix } = stores.config;
  return { session, version, prefix, hasApprovals: APPROVALS.length > 0 };
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
      <body data-now="${Date.now()}" ${page.trouble && html`data-unknown`}>
        <a class="skip" href="#main">Skip to the content</a>
        ${frame === undefined ? html`<header><p class="brand">crmsync</p></header>` : header(frame, page)}
        <section id="trouble" aria-label="State of this page">
          ${page.trouble && html`<p role="alert">${page.trouble}</p>`}
        </section>
        <main id="main" tabindex="-1">
          ${page.heading === undefined ? html`<h1>${page.title}</h1>` : live("heading", html`<h1>${page.heading}</h1>`)}
          ${page.main}
        </main>
        ${frame && footer(frame)}
      </body>
    </html> `;

/** On a phone, the button opens the list of pages: it needs no script. */
const header = (
  { counts = {}, hasApprovals, session }: Frame,
  { search = "", tab: current }: Page,
): Html =>
  html`<header>
    <p class="brand">crmsync</p>
    <button type="button" class="menu" popovertarget="pages">
      <span aria-hidden="true">☰</span> ${current === undefined ? "Pages" : TABS[current]}
    </button>
    <nav id="pages" popover aria-label="Pages">
      ${live(
        "tabs",
        html`<ul>
          ${tabsOf(hasApprovals || current === "approvals").map(
            (tab) =>
              html`<li>
                <a href="${tabPath(tab)}" ${tab === current ? html` aria-current="page"` : ""}
                  >${TABS[tab]}${(counts[tab] ?? 0) > 0 && html` <span class="count">${countText(counts[tab] ?? 0)}</span>`}</a
                >
              </li>`,
          )}
        </ul>`,
      )}
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

const countText = (count: number): string => (count > 999 ? "999+" : String(count));

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

/** Of a form with rows: what a checkbox stands for comes back as it was, of any text. */
export const picksIn = (request: FastifyRequest): Readonly<Record<string, string>>[] =>
  formOf(request)
    .getAll("pick")
    .map((text) => Object.fromEntries(new URLSearchParams(text)));

/** Column of checkboxes. @param nameOf of a row, for who does not see it */
export const pickColumn = <Row>(
  pickOf: (row: Row) => Query,
  nameOf: (row: Row) => string,
): Column<Row> => ({
  heading: "Select",
  hasPicks: true,
  cell: (row) =>
    html`<input
      type="checkbox"
      name="pick"
      value="${pathTo("", pickOf(row)).slice(1)}"
      aria-label="Select ${nameOf(row)}"
    />`,
});

/** The form around such rows: its buttons appear once something is selected. @param acts name → what the button says */
export const pickForm = (
  session: Session,
  path: string,
  acts: Readonly<Record<string, string>>,
  content: Value,
): Html =>
  html`<form method="post" action="${path}" class="picks">
    <input type="hidden" name="${FORM_FIELD}" value="${formProof(session)}" />${content}
    <p class="acts">
      ${Object.entries(acts).map(([act, says]) => html`<button name="act" value="${act}" class="${act}">${says}</button> `)}
    </p>
  </form>`;

/** Sends on what was selected. */
export const hiddenPicks = (request: FastifyRequest): Html[] =>
  formOf(request)
    .getAll("pick")
    .map((pick) => html`<input type="hidden" name="pick" value="${pick}" />`);

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
export function pagesOn(app: FastifyInstance, ports: ConsolePorts) {
  const answering = (handler: Handler) => async (request: FastifyRequest, reply: FastifyReply) => {
    const session = sessionOf(request);
    const answer = await handler(request);
    if ("says" in answer) {
      const { path, query, says } = answer;
      const proof = session.sign(`notice ${says}`);
      return reply.redirect(pathTo(path, { ...query, notice: says, proof }), 303);
    }
    const page = { ...answer, main: html`${noticeOf(request)}${answer.main}` };
    const frame = { ...frameOf(session, ports), counts: await countsFor(request, ports) };
    return reply
      .code(answer.status ?? 200)
      .type("text/html; charset=utf-8")
      .send(String(layout(page, frame)));
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

/** A plan that is older cannot be begun, ms. */
export const PLAN_MS = 86_400_000;

/** A page is shown also where its numbers cannot be read. */
async function countsFor(request: FastifyRequest, ports: ConsolePorts): Promise<Frame["counts"]> {
  try {
    const read = await (isAfterAct(request) ? ports.freshReadings() : ports.readings());
    const { approvals, deadLetters, now, openComparisons, terminations } = read;
    const plans = openComparisons.filter(
      ({ at, plan }) => plan !== undefined && now - at < PLAN_MS,
    );
    return {
      dead: deadLetters,
      held: terminations.held,
      bulk: plans.length,
      approvals: approvals.filter((one) => !isEnded(one) && !isOver(one, now)).length,
    };
  } catch {
    return undefined;
  }
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
