/** What a person does about a finding: where in the console, and what docs/runbook.md says of it. */
import { existsSync, readFileSync } from "node:fs";
import { PROGRAM } from "../../base/command.ts";
import { Refusal } from "../../intake/http/limits.ts";
import { ROOT } from "../../base/version.ts";
import { html, pathTo, type Html, type Value } from "./html.ts";
import { BASE, tabPath, type Tab, queryOf, type Pages } from "./pages.ts";

const PATH = `${BASE}/runbook`;

const LOOK: Readonly<Partial<Record<Tab, string>>> = {
  held: "Look at held changes",
  dead: "See dead letters",
  bulk: "See imports and comparisons",
  sources: "See sources",
  records: "See what waits longest",
  approvals: "See approvals",
  audit: "See the audit trail",
};

/** Section of the runbook → the tab that shows what it is about, or does what it says. */
export const TAB_OF: Readonly<Record<string, Tab>> = Object.fromEntries(
  Object.entries({
    held: "crmsyncheldterminations crmsyncfieldsemptied",
    dead: `crmsyncdeadletters crmsyncdeadlettersexpiring crmsyncchangesrejected a-mapping-was-wrong
      a-value-list-has-lost-values`,
    bulk: `crmsyncbulkpaused a-plan-was-interrupted crmsyncreconcilefailed crmsyncreconcileblocked
      crmsyncreconcileoverdue crmsyncdrift`,
    sources: `crmsyncsourcesilent crmsyncsendererrors crmsyncsourceclockahead crmsyncchangeslost
      crmsyncpulloverdue webhooks-get-lost events-that-are-older-than-what-is-known
      the-clock-of-a-crm-is-wrong the-value-lists-are-not-known the-value-lists-are-old records-come-without-a-time`,
    records: "crmsyncchangestuck",
    approvals: "an-act-waits-for-approval the-mapping-waits-for-approval",
    audit: "crmsyncauditfailed",
  }).flatMap(([tab, names]) => names.split(/\s+/).map((name) => [name, tab as Tab])),
);

let sections: ReadonlyMap<string, Section> | undefined;

interface Section {
  readonly title: string;
  readonly text: string;
}

/** A finding on one line: unfolded, what else it says and the runbook; beside it the way to where a person decides. */
export function remedyView(
  runbook: string,
  id: string,
  { rest, says }: { readonly says: Html; readonly rest: Value },
): Html {
  return html`${runbookView(runbook, id, { before: rest, summary: says })}${lookButton(nameIn(runbook))}`;
}

/**
 * A section of the runbook, folded.
 * @param runbook as a finding names it: `docs/runbook.md#section`.
 * @param id of the part, on this page.
 */
export function runbookView(
  runbook: string,
  id: string,
  {
    before = "",
    isOpen = false,
    summary = "What it means, and what to do",
  }: { readonly before?: Value; readonly isOpen?: boolean; readonly summary?: Value } = {},
): Html {
  const section = sectionOf(nameIn(runbook));
  return html`<details id="${id}" ${isOpen && html`open`}>
    <summary>${summary}</summary>
    <div>
      ${before !== "" && html`<p>${before}</p>`}
      ${section === undefined ? html`<p><code>${runbook}</code></p>` : blocks(section.text)}
    </div>
  </details>`;
}

function lookButton(section: string): Html | false {
  const tab = TAB_OF[section];
  return tab !== undefined && html`<a class="button" href="${tabPath(tab)}">${LOOK[tab]}</a>`;
}

/** The name of an alert as words: CrmsyncHeldTerminations is "Held terminations". */
function titleOf({ title }: Section): string {
  const words = title
    .replace(/^Crmsync(?=[A-Z])/, "")
    .replaceAll(/\B[A-Z]/g, (one) => ` ${one.toLowerCase()}`);
  return title.startsWith("Crmsync") ? words : title;
}

const nameIn = (runbook: string): string => runbook.split("#")[1] ?? "";

/** Sections lead to others. */
export function serveRunbook(pages: Pages): void {
  pages.show(PATH, async (request) => {
    const name = queryOf(request)["section"] ?? "";
    const section = sectionOf(name);
    if (section === undefined) throw new Refusal(404, "The runbook has no such section.");
    const title = titleOf(section);
    const main = html`${lookButton(name)}${blocks(section.text)}`;
    return { title, main };
  });
}

const sectionOf = (name: string): Section | undefined =>
  (sections ??= readSections(runbookText())).get(name);

/** A page without remedies is better than none. */
function runbookText(): string {
  const file = new URL("docs/runbook.md", ROOT);
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

/** Sections by the name that links use. */
export function readSections(markdown: string): ReadonlyMap<string, Section> {
  const parts = markdown.split(/^### /m).slice(1);
  return new Map(
    parts.map((part) => {
      const [title = ""] = part.split("\n", 1);
      const name = title
        .toLowerCase()
        .replaceAll(/[^\w -]/g, "")
        .replaceAll(" ", "-");
      const [text = ""] = part.slice(title.length).split(/^## /m, 1);
      return [name, { title, text: text.trim() }];
    }),
  );
}

/** A bold word at the start of a line begins a paragraph. */
const BETWEEN = /\n\n+|\n(?=\*\*[A-Z])/;
const FENCE = /^```\w*\n([^]*?)\n```$/;
const ITEM = /^(?:- |\d+\. )/m;

/** The Markdown that the runbook uses. */
export const blocks = (text: string): Html[] => text.trim().split(BETWEEN).map(blockOf);

/** A fence of code, a paragraph, or a list that may follow one. */
function blockOf(block: string): Html {
  const [, code] = FENCE.exec(block) ?? [];
  if (code !== undefined) return html`<pre tabindex="0">${lines(calledHere(code))}</pre>`;
  const [before = "", ...items] = block.split(ITEM).map((part) => part.trim());
  const list = items.map((item) => html`<li>${inline(item)}</li>`);
  return html`${before !== "" && html`<p>${inline(before)}</p>`}
  ${
    list.length > 0 &&
    (/^- /m.test(block)
      ? html`<ul>
          ${list}
        </ul>`
      : html`<ol>
          ${list}
        </ol>`)
  }`;
}

/** A checkout has no command `crmsync`. */
const calledHere = (code: string): string => code.replaceAll(/^crmsync(?= [a-z])/gm, () => PROGRAM);

/** Line breaks are shown, not escaped. */
export const lines = (text: string): Html[] =>
  text.split("\n").map((line, n) => html`${n > 0 && html`<br />`}${line}`);

const MARKS = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[((?:[^\]`]|`[^`]*`)+)\]\(([^)\s]+)\)/g;

function inline(text: string): Html[] {
  const shown: Html[] = [];
  let from = 0;
  for (const { 0: all, 1: code, 2: strong, 3: em, 4: label, 5: to = "", index } of text.matchAll(
    MARKS,
  )) {
    shown.push(html`${text.slice(from, index).replaceAll(/\s+/g, " ")}`);
    from = index + all.length;
    if (code !== undefined)
      shown.push(html`<code>${calledHere(code).replaceAll(/\s+/g, " ")}</code>`);
    else if (strong !== undefined) shown.push(html`<strong>${strong}</strong>`);
    else if (em !== undefined) shown.push(html`<em>${em}</em>`);
    else if (label !== undefined) shown.push(linkTo(to, inline(label)));
  }
  return [...shown, html`${text.slice(from).replaceAll(/\s+/g, " ")}`];
}

/** Other documents are not served: of a link to one, the text is left. */
function linkTo(to: string, label: readonly Html[]): Html {
  if (to.startsWith("#")) {
    return html`<a href="${pathTo(PATH, { section: to.slice(1) })}">${label}</a>`;
  }
  return to.startsWith("https://") ? html`<a href="${to}">${label}</a>` : html`${label}`;
}
