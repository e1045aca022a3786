/** The tab Records: what became of one record, and the steps that led there; before a search, what waits longest. */
import type { Lane } from "../../core/event/lane.ts";
import type { Fate } from "../history/fate.ts";
import { storyOf, type Story } from "../history/story.ts";
import { may } from "../../base/person.ts";
import { linkOf } from "../../intake/mapping/mapping-file.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { decideLinks } from "./held.ts";
import { facts, html, pathTo, type Html, ago, moment, table } from "./html.ts";
import {
  crmLink,
  IN_CRM,
  live,
  recordCell,
  recordLink,
  tabPath,
  queryOf,
  type Pages,
} from "./pages.ts";
import { listLink, syncLink } from "./record-list.ts";
import { runbookView } from "./remedies.ts";
import { tryLink } from "./try.ts";
import { told } from "./words.ts";

const PATH = tabPath("records");

export function serveRecordsTab(pages: Pages, ports: ConsolePorts): void {
  serveInCrm(pages, ports);
  pages.show(PATH, async (request) => {
    const given = queryOf(request)["name"] ?? "";
    if (given.trim() === "") {
      const main = html`<p>${listLink("All records with their state")}</p>
        ${tryLink(sessionOf(request))}${live("records", await lately(ports))}`;
      return { title: "Records", tab: "records", main };
    }
    const story = await storyFor(given, ports);
    const main = live("story", await storyView(story, sessionOf(request), ports));
    const { name } = story;
    return { title: `Record ${name}`, tab: "records", search: name, main };
  });
}

/** A list knows the crmCode of a record, and not always its name in the CRM. */
function serveInCrm({ app }: Pages, ports: ConsolePorts): void {
  app.get(IN_CRM, async (request, reply) => {
    const name = queryOf(request)["name"] ?? "";
    const { subject } = await storyOf(ports.stores, name, ports.mapping);
    const to = subject === null ? undefined : linkOf(ports.mapping.links ?? new Map(), subject);
    return reply.redirect(to ?? pathTo(PATH, { name }), 303);
  });
}

/** Tries the name as it was given, then without blanks around it: a person may have pasted these. */
async function storyFor(given: string, { mapping, stores }: ConsolePorts): Promise<Story> {
  const story = await storyOf(stores, given, mapping);
  const name = given.trim();
  return story.fate !== "unknown" || name === given ? story : storyOf(stores, name, mapping);
}

/** Rows of each table. */
const SHOWN = 10;

interface Row {
  readonly crmCode: string;
  /** ms */
  readonly at: number | undefined;
}

/** What waits longest, and what was sent last. */
async function lately(ports: ConsolePorts): Promise<Html> {
  const { stores } = ports;
  const [live, imports, sent] = await Promise.all([
    waitingLongest(stores, "live"),
    waitingLongest(stores, "bulk"),
    sentLast(stores),
  ]);
  return html`<p class="dim">
      Search for a crmCode, or a record of the CRM such as contact/7: its page says what became of
      it, why, and what to do.
    </p>
    <div class="cards">
      ${rowsTable(ports, "What waits longest", "Came", live)}
      ${rowsTable(ports, "Imports that wait longest", "Came", imports)}
      ${rowsTable(ports, "Latest changes that this process has sent", "On the service", sent)}
    </div>
    ${live.length + imports.length === 0 && html`<p class="good">No change waits.</p>`}`;
}

async function waitingLongest({ line }: Stores, lane: Lane): Promise<Row[]> {
  const found = await line.oldest(lane, SHOWN);
  return found.map(({ crmCode, since }) => ({ crmCode, at: since }));
}

const sentLast = ({ ledger, settledLately }: Stores): Promise<Row[]> =>
  Promise.all(
    settledLately.latest(SHOWN).map(async (crmCode) => {
      const row = await ledger.row(crmCode);
      return { crmCode, at: row?.provedAt || undefined };
    }),
  );

const rowsTable = (
  ports: ConsolePorts,
  caption: string,
  heading: string,
  rows: readonly Row[],
): Html | false =>
  rows.length > 0 &&
  html`<section>
    <h2>${caption}</h2>
    ${table({
      rows,
      columns: [
        { heading: "crmCode", cell: ({ crmCode }) => recordCell(ports, crmCode) },
        { heading, cell: ({ at }) => ago(at) },
      ],
    })}
  </section>`;

/** How pressing each fate is. */
const TONES: Readonly<Record<Fate, "good" | "warning" | "bad">> = {
  on_service: "good",
  unchanged: "good",
  superseded: "good",
  terminated: "good",
  sending: "good",
  ignored: "warning",
  waits_for_quota: "warning",
  waits_for_retry: "warning",
  paused: "warning",
  fetching: "warning",
  not_on_service: "warning",
  uncertain: "warning",
  unknown: "warning",
  stopped: "bad",
  held: "bad",
  rejected: "bad",
};

async function storyView(story: Story, session: Session, ports: ConsolePorts): Promise<Html> {
  const { stores } = ports;
  const { answer, crmCode, fate, historySince, name, others, remedy, runbook } = story;
  const { similar, steps, subject } = story;
  return html`<p class="notice ${TONES[fate]}">
      <span class="says"><strong>${name}</strong>: ${told(answer)}</span>
    </p>
    ${fate === "unknown" && NAME.test(name) && NOT_KEPT}
    ${remedy !== null && html`<p>${told(remedy)}</p>`} ${await decideLink(story, session, stores)}
    ${(crmCode !== null || subject !== null) && fate !== "held" && syncLink(session, ports, name)}
    ${runbook !== null && runbookView(runbook, "runbook")}
    ${
      fate !== "unknown" &&
      facts({
        crmCode: crmCode ?? "not known",
        "Record of the CRM":
          subject === null ? "not known" : html`${subject}${crmLink(ports, subject)}`,
      })
    }
    ${others.map(
      (other) => html`<p>It also led to ${recordLink(other.crmCode)}: ${told(other.answer)}</p>`,
    )}
    ${similar.map(
      (one) =>
        html`<p>
          ${recordLink(one.name)} (crmCode ${one.crmCode ?? "not known"}): ${told(one.answer)}
        </p>`,
    )}
    ${
      steps.length > 0 &&
      html`<h2>What happened</h2>
        <ol class="timeline" reversed>
          ${steps.map(stepView)}
        </ol>`
    }
    <p class="dim">
      ${historySince === null ? "No history is kept (HISTORY_DAYS is 0, or no process has run yet)." : html`The last 20 steps are kept, complete since ${moment(Date.parse(historySince))}.`}
    </p>`;
}

/** As a person's name, or an address. */
const NAME = /^[\p{L}\p{M}'’. ,-]+$|@/u;

const NOT_KEPT = html`<p>
  crmsync keeps no names or addresses of persons, so it cannot search for them. Search for the
  crmCode, or for the record of the CRM, such as contact/7: the number in the address of the
  client's page in the CRM.
</p>`;

/** Leads to where a person decides. */
async function decideLink(
  { crmCode, deadLetter, fate }: Story,
  session: Session,
  { heldTerminations }: Stores,
): Promise<Html | string> {
  if (fate === "held") {
    const held = crmCode === null ? undefined : await heldTerminations.find(crmCode);
    return html`<p class="acts">
      ${held !== undefined && may(session.person, "act") && decideLinks(held, "button")}
      <a href="${tabPath("held")}">All held changes</a>
    </p>`;
  }
  if (fate !== "rejected" || deadLetter === null) return "";
  const path = pathTo(`${tabPath("dead")}/letter`, { id: deadLetter });
  return html`<p class="acts"><a class="button" href="${path}">See its dead letter</a></p>`;
}

/** What happened, and folded how. */
function stepView(step: Story["steps"][number], n: number, all: Story["steps"]): Html {
  const { at } = step;
  const { details, says } = inShort(step);
  const line = html`<span class="dim">${moment(Date.parse(at), "", "exact")}</span> ${told(says)}`;
  if (details === "") return html`<li>${line}</li>`;
  return html`<li>
    <details id="step-${all.length - n}">
      <summary>${line}</summary>
      <div class="dim">${told(details)}</div>
    </details>
  </li>`;
}

/** Takes the request, or the name of the event, out of the sentence of a step. */
function inShort({ event, says }: Story["steps"][number]): Record<"details" | "says", string> {
  const [sent = "", often = "", how = ""] =
    /^(\d+ times: )?(?:(\w+ (?:\d+|no answer) in \d+ ms)|no request): /.exec(says) ?? [];
  if (sent !== "") return { says: often + says.slice(sent.length), details: how };
  const mark = event === undefined ? "" : `, id ${event.id}: `;
  const end = mark === "" ? -1 : says.indexOf(mark);
  if (end < 0) return { says, details: "" };
  const came = says.slice(0, end + mark.length - 2);
  return {
    says: `${came.replace(/ of [^]*$/, "")}: ${says.slice(end + mark.length)}`,
    details: came,
  };
}
