/** The frame around each page of the console. */
import { FORM_FIELD, formProof } from "./access.ts";
import { may, type Person } from "../people/person.ts";
import { html, pathTo, type Html, type Value } from "./html.ts";
import type { Session } from "./session.ts";

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
