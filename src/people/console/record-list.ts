/** The list of all records by state, and one record that is brought to the service now. */
import { Readable } from "node:stream";
import { may, nameText } from "../../base/person.ts";
import { CRMS } from "../../intake/crm/connectors.ts";
import { canFetch } from "../../intake/crm/read-whole.ts";
import {
  cursorIn,
  listRelations,
  pageOfRelations,
  type RelationFilter,
  type RelationState,
} from "../../records/list-relations.ts";
import { csvOf, CSV_HEAD } from "../../records/print-relation.ts";
import { RELATION_STATES, type RelationStateName } from "../../records/state-of.ts";
import { planSync, pushSync, type SyncPlan } from "../../records/sync-one.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { ago, html, pathTo, table, type Html, type Value } from "./html.ts";
import {
  crmLink,
  live,
  postForm,
  queryOf,
  recordLink,
  ROWS,
  tabPath,
  type Pages,
} from "./pages.ts";
import { told } from "./words.ts";

const LIST = `${tabPath("records")}/list`;
const SYNC = `${tabPath("records")}/sync`;

const EXPORT = `${LIST}/export`;

/** To the records in one of these states; none: to all. */
export const listLink = (text: Value, ...states: readonly RelationStateName[]): Html =>
  html`<a href="${pathTo(LIST, { state: states.join() || undefined })}">${text}</a>`;

export function serveRecordList(pages: Pages, ports: ConsolePorts): void {
  pages.show(LIST, async (request) => {
    const { filter, from, state, text } = askedIn(queryOf(request));
    const { next, relations } = await pageOfRelations(ports.stores, filter, { from, most: ROWS });
    const more = next && pathTo(LIST, { state, text, from: `${next.place}:${next.cursor}` });
    const main = html`${filterForm(state, text)}${exportForm(sessionOf(request), state, text)}
    ${live(
      "relations",
      html`${
        relations.length === 0
          ? html`<p class="dim">
              ${more === undefined ? "No more record is like that." : "None of these records is like that; there are more."}
            </p>`
          : relationsTable(relations, ports)
      }
      ${more !== undefined && html`<nav class="pager" aria-label="Pages of this list"><a href="${more}" rel="next">Next rows</a></nav>`}`,
    )}`;
    const heading = state === undefined ? "All records" : `Records: ${CHOICES[state]}`;
    return { title: heading, tab: "records", main };
  });
  pages.app.post(EXPORT, async (request, reply) => {
    const { filter, state } = askedIn(Object.fromEntries(formOf(request)));
    await ports.countExport(request, nameText(sessionOf(request).person));
    const details = { list: "records", state, isSearch: filter.search !== undefined };
    const by = actorOf(request);
    await ports.stores.auditActs.record({ act: "console.export", by, details });
    const name = `records-${new Date(Date.now()).toISOString().slice(0, 10)}.csv`;
    return reply
      .type("text/csv; charset=utf-8")
      .header("content-disposition", `attachment; filename="${name}"`)
      .send(Readable.from(csvLines(ports, filter)));
  });
  pages.confirm(SYNC, async (request) => {
    const name = queryOf(request)["name"] ?? "";
    const plan = await planSync(name, ports);
    const main = planView(plan, sessionOf(request));
    return { title: `Bring ${name} to the service now?`, tab: "records", main };
  });
  pages.act(SYNC, async (request) => {
    const { stores } = ports;
    await stores.stateVersion.require();
    const name = queryOf(request)["name"] ?? "";
    // What the CRM has by now counts, not what the page has shown.
    const plan = await planSync(name, ports);
    await pushSync(stores, actorOf(request), plan);
    const says =
      plan.event === undefined
        ? "Nothing was sent."
        : "The record is on its way: its steps are below.";
    return { path: tabPath("records"), query: { name }, says };
  });
}

async function* csvLines({ stores }: ConsolePorts, filter: RelationFilter) {
  yield CSV_HEAD;
  for await (const page of listRelations(stores, filter)) yield page.map(csvOf).join("");
}

/** What an address names as the state, and what a person reads. */
const CHOICES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(RELATION_STATES.map((name) => [name, name])),
  "waiting,retrying": "waiting or retrying",
};

function askedIn({ from, state: given = "", text: search = "" }: Given) {
  const state = Object.hasOwn(CHOICES, given) ? given : undefined;
  const text = search.trim() || undefined;
  const filter: RelationFilter = {
    states: state?.split(",") as RelationStateName[] | undefined,
    search: text,
  };
  return { filter, state, text, from: from === undefined ? undefined : cursorIn(from) };
}

type Given = Readonly<Record<string, string | undefined>>;

const filterForm = (state: string | undefined, text = ""): Html =>
  html`<form action="${LIST}" class="filters">
    <label>
      State
      <select name="state">
        <option value="">all</option>
        ${Object.entries(CHOICES).map(([name, says]) => html`<option value="${name}" ${name === state && html` selected`}>${says}</option>`)}
      </select>
    </label>
    <label
      >In the crmCode or the record's name
      <input type="search" name="text" value="${text}" maxlength="200"
    /></label>
    <button class="main">Find</button>
  </form>`;

const exportForm = (session: Session, state = "", text = ""): Html =>
  postForm(
    session,
    EXPORT,
    html`<input type="hidden" name="state" value="${state}" />
      <input type="hidden" name="text" value="${text}" />
      <p class="acts"><button>Export as CSV</button></p>`,
  );

const relationsTable = (relations: readonly RelationState[], ports: ConsolePorts): Html =>
  table({
    rows: relations,
    columns: [
      {
        heading: "Record",
        cell: ({ crmCode, record }) =>
          html`${recordLink(crmCode ?? record ?? "", crmCode ?? "(no crmCode)")}
          ${record !== undefined && html`<span class="dim">${record}</span>`}${crmLink(ports, record)}`,
      },
      { heading: "State", cell: ({ also, state }) => [state, ...also].join(", ") },
      { heading: "Since", cell: ({ since }) => ago(since) },
      {
        heading: "Why",
        cell: ({ next, why }) => html`${told(why)} <span class="dim">${told(next)}</span>`,
      },
      {
        heading: "Confirmed",
        cell: ({ confirmedAt, confirmedBy }) =>
          html`${ago(confirmedAt)}${confirmedBy !== undefined && html` <span class="dim">(${confirmedBy})</span>`}`,
      },
      { heading: "Owner", cell: ({ owner = "" }) => owner },
    ],
  });

/** To the page that shows each step, and sends the record. */
export const syncLink = (
  { person }: Session,
  { stores: { config } }: ConsolePorts,
  name: string,
): Html | false =>
  may(person, "act") &&
  CRMS.some((crm) => canFetch(config, crm.name)) &&
  html`<p class="acts">
    <a class="button" href="${pathTo(SYNC, { name })}">Bring it to the service now…</a>
  </p>`;

const HEADINGS: Readonly<Record<SyncPlan["steps"][number]["step"], string>> = {
  read: "Read",
  map: "Rule",
  payload: "Payload",
  service: "Service",
  result: "Result",
  waits: "Waits",
};

const planView = ({ event, name, steps }: SyncPlan, session: Session): Html =>
  html`<p class="dim">
      Nothing was sent yet. One request was spent to see what the service has, unless a step says
      otherwise.
    </p>
    ${table({
      rows: steps,
      columns: [
        { heading: "Step", cell: ({ step }) => HEADINGS[step] },
        { heading: "What it says", cell: ({ says }) => told(says) },
      ],
    })}
    ${
      event !== undefined &&
      postForm(
        session,
        pathTo(SYNC, { name }),
        html`<p class="acts">
          <button class="main">Send it now</button>
          <a href="${pathTo(tabPath("records"), { name })}">Back</a>
        </p>`,
      )
    }`;
