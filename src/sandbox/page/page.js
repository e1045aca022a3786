/**
 * The script of the page at `/`. It reads the token from the address's fragment (browsers never
 * send it) or from the form, and keeps it until the tab is closed.
 *
 * @import {
 *   LoggedRequest, Overview, RelationDetails, RelationList, RelationSummary, RequestList
 * } from "./page-data.ts"
 */

const REFRESH_MS = 2000;
/** Rows of one `/page/relations`: a longer list is not read again with every refresh. */
const ROWS_PER_READ = 50;
const REQUESTS_SHOWN = 40;

const page = {
  entry: byId("entry", HTMLFormElement),
  token: byId("token", HTMLInputElement),
  error: byId("error", HTMLElement),
  tenant: byId("tenant", HTMLElement),
  content: byId("content", HTMLElement),
  numbers: byId("numbers", HTMLElement),
  filter: byId("filter", HTMLFormElement),
  search: byId("search", HTMLInputElement),
  type: byId("type", HTMLSelectElement),
  status: byId("status", HTMLSelectElement),
  relations: byId("relations", HTMLElement),
  none: byId("none", HTMLElement),
  more: byId("more", HTMLButtonElement),
  details: byId("details", HTMLElement),
  requests: byId("requests", HTMLElement),
};

/** @type {string | null} crmCode of the relation whose details are shown */
let selected = null;
/** @type {readonly RelationSummary[]} */
let rows = [];
/** @type {number | undefined} */
let timer;

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`The page has no ${kind.name} with id ${id}`);
  return found;
}

/**
 * @param {keyof HTMLElementTagNameMap} tag
 * @param {{ class?: string, text?: string | number }} [options]
 * @param {...Node} children
 */
function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  if (options.class !== undefined) made.className = options.class;
  if (options.text !== undefined) made.textContent = String(options.text);
  made.append(...children);
  return made;
}

/** An error response: for example, the token is invalid or the address is not allowed. */
class ResponseError extends Error {}

/**
 * @param {string} path below `/page/`
 * @returns {Promise<unknown>} null for a 404
 */
async function read(path) {
  const response = await fetch(`/page/${path}`, {
    headers: { authorization: `Bearer ${sessionStorage.getItem("token")}` },
  });
  if (response.status === 404) return null;
  if (!response.ok) {
    const body = /** @type {{ error: string, ip?: string }} */ (await response.json());
    const { error, ip } = body;
    throw new ResponseError(ip ? `${error}: ${ip} is not on the allow-list` : error);
  }
  return response.json();
}

/** @param {string} iso */
function timeOfDay(iso) {
  return new Date(iso).toLocaleTimeString([], { hour12: false });
}

async function showOverview() {
  const overview = /** @type {Overview} */ (await read("overview"));
  const { tenant, environment, policy, quota, relations } = overview;
  page.tenant.textContent = `client ${tenant}, ${environment} environment`;
  const numbers = /** @type {const} */ ([
    [relations.active, "active relations"],
    [relations.terminated, "terminated relations"],
    [`${quota.remaining} / ${quota.limit}`, `requests left (${policy})`],
    [timeOfDay(quota.resetAt), "full quota again"],
  ]);
  page.numbers.replaceChildren(
    ...numbers.map(([value, label]) =>
      element(
        "li",
        {},
        element("b", { text: value }),
        element("span", { class: "dim", text: label }),
      ),
    ),
  );
}

/** @param {RelationSummary} row */
function relationRow(row) {
  const open = element("button", { class: "link code", text: row.crmCode });
  open.addEventListener("click", () => {
    selected = row.crmCode;
    void run(showDetails);
  });
  const status = row.relationStatus === "active" ? "good" : "dim";
  return element(
    "tr",
    {},
    element("td", {}, open),
    element("td", { text: row.name }),
    element("td", { text: row.type }),
    element("td", { class: status, text: row.relationStatus }),
    element("td", { class: "number", text: row.writes }),
  );
}

/** @param {number} [before] seq of the last row: adds older rows instead of reading anew */
async function showRelations(before) {
  const query = new URLSearchParams({
    search: page.search.value,
    type: page.type.value,
    status: page.status.value,
  });
  if (before !== undefined) query.set("before", String(before));
  const list = /** @type {RelationList} */ (await read(`relations?${query}`));
  rows = before === undefined ? list.rows : [...rows, ...list.rows];
  page.relations.replaceChildren(...rows.map(relationRow));
  page.none.hidden = rows.length > 0;
  page.more.hidden = !list.more;
}

async function showDetails() {
  if (selected === null) return;
  const query = new URLSearchParams({ crmCode: selected });
  const found = /** @type {RelationDetails | null} */ (await read(`relation?${query}`));
  page.details.hidden = found === null;
  if (found === null) return;
  page.details.replaceChildren(
    element("h2", { text: selected }),
    fieldList(found.relation),
    element("h3", { text: "History of writes" }),
    writesTable(found.writes),
  );
}

/** @param {RelationDetails["relation"]} relation */
function fieldList(relation) {
  const fields = element("dl");
  for (const [field, value] of Object.entries(relation)) {
    const text = Array.isArray(value) ? value.join(", ") : String(value);
    fields.append(element("dt", { text: field }), element("dd", { text }));
  }
  return fields;
}

/** @param {RelationDetails["writes"]} writes */
function writesTable(writes) {
  const titles = ["Time", "Write", "Changed"].map((text) => element("th", { text }));
  const lines = writes.map(({ at, operation, changed }) =>
    element(
      "tr",
      {},
      element("td", { text: new Date(at).toLocaleString([], { hour12: false }) }),
      element("td", { text: operation }),
      element("td", { text: changed === undefined ? "" : changed.join(", ") || "nothing" }),
    ),
  );
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...lines),
  );
}

async function showRequests() {
  const { requests } = /** @type {RequestList} */ (await read("requests"));
  page.requests.replaceChildren(...requests.slice(0, REQUESTS_SHOWN).map(requestRow));
}

/** @param {LoggedRequest} request */
function requestRow({ at, method, path, status, ms }) {
  const succeeded = status !== null && status < 400;
  return element(
    "tr",
    {},
    element("td", { text: timeOfDay(at) }),
    element("td", { class: "code", text: `${method} ${path}` }),
    element("td", { class: succeeded ? "number good" : "number bad", text: status ?? "cut" }),
    element("td", { class: "number", text: ms }),
  );
}

/**
 * Runs the steps in order and shows the first error. A token that the server rejects is forgotten.
 *
 * @param {...(() => Promise<void>)} steps
 */
async function run(...steps) {
  try {
    for (const step of steps) await step();
    page.entry.hidden = true;
    page.content.hidden = false;
    page.error.textContent = "";
  } catch (error) {
    if (error instanceof ResponseError) {
      sessionStorage.removeItem("token");
      page.entry.hidden = false;
      page.content.hidden = true;
    }
    page.error.textContent = error instanceof Error ? error.message : String(error);
  }
}

async function refresh() {
  clearTimeout(timer);
  if (sessionStorage.getItem("token") === null) {
    page.entry.hidden = false;
    return;
  }
  const steps = [showOverview, showRequests, showDetails];
  if (rows.length <= ROWS_PER_READ) steps.push(() => showRelations());
  await run(...steps);
  timer = setTimeout(() => void refresh(), REFRESH_MS);
}

const linkToken = new URLSearchParams(location.hash.slice(1)).get("token");
if (linkToken) {
  sessionStorage.setItem("token", linkToken);
  history.replaceState(null, "", location.pathname);
}
page.entry.addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", page.token.value.trim());
  page.token.value = "";
  void refresh();
});
page.filter.addEventListener("submit", (event) => event.preventDefault());
page.filter.addEventListener("input", () => void run(() => showRelations()));
page.more.addEventListener("click", () => void run(() => showRelations(rows.at(-1)?.seq)));
void refresh();
