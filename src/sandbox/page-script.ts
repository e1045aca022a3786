/**
 * The script of the page at `/`, as the browser gets it. The token comes in the address's
 * fragment (never sent to a server) or by hand, and lives as long as the tab.
 */
export const PAGE_SCRIPT = String.raw`
const REFRESH_MS = 2000;
const byId = (id) => document.getElementById(id);
const fragment = new URLSearchParams(location.hash.slice(1)).get("token");
if (fragment) {
  sessionStorage.setItem("token", fragment);
  history.replaceState(null, "", location.pathname);
}

let selected = null;
let rows = [];
let timer;

function element(tag, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

class Refused extends Error {}

async function ask(path) {
  const response = await fetch("/page/" + path, {
    headers: { authorization: "Bearer " + sessionStorage.getItem("token") },
  });
  if (response.status === 404) return null;
  if (!response.ok) {
    const { error, ip } = await response.json();
    throw new Refused(ip ? error + ": " + ip + " is not on the allow-list" : error);
  }
  return response.json();
}

const time = (iso) => new Date(iso).toLocaleTimeString([], { hour12: false });

function showOverview({ tenant, environment, policy, quota, relations }) {
  byId("tenant").textContent = "client " + tenant + ", " + environment + " environment";
  const numbers = [
    [relations.active, "active relations"],
    [relations.terminated, "terminated relations"],
    [quota.remaining + " / " + quota.limit, "requests left (" + policy + ")"],
    [time(quota.resetAt), "quota whole again"],
  ];
  byId("numbers").replaceChildren(
    ...numbers.map(([value, label]) =>
      element("li", {}, element("b", { text: value }), element("span", { class: "dim", text: label })),
    ),
  );
}

function showRows(more) {
  byId("relations").replaceChildren(
    ...rows.map((row) => {
      const open = element("button", { class: "link code", text: row.crmCode });
      open.addEventListener("click", () => {
        selected = row.crmCode;
        run(showDetails);
      });
      const status = row.relationStatus === "active" ? "good" : "dim";
      return element("tr", {},
        element("td", {}, open),
        element("td", { text: row.name }),
        element("td", { text: row.type }),
        element("td", { class: status, text: row.relationStatus }),
        element("td", { class: "number", text: row.writes }),
      );
    }),
  );
  byId("none").hidden = rows.length > 0;
  byId("more").hidden = !more;
}

async function loadRows(before) {
  const query = new URLSearchParams({
    search: byId("search").value, type: byId("type").value, status: byId("status").value,
  });
  if (before) query.set("before", before);
  const page = await ask("relations?" + query);
  rows = before ? [...rows, ...page.rows] : page.rows;
  showRows(page.more);
}

async function showDetails() {
  if (selected === null) return;
  const found = await ask("relation?" + new URLSearchParams({ crmCode: selected }));
  const section = byId("details");
  section.hidden = found === null;
  if (found === null) return;
  const fields = element("dl");
  for (const [field, value] of Object.entries(found.relation)) {
    const text = Array.isArray(value) ? value.join(", ") : String(value);
    fields.append(element("dt", { text: field }), element("dd", { text }));
  }
  const history = found.writes.map((write) =>
    element("tr", {},
      element("td", { text: new Date(write.at).toLocaleString([], { hour12: false }) }),
      element("td", { text: write.operation }),
      element("td", { text: write.changed ? write.changed.join(", ") || "nothing" : "" }),
    ),
  );
  section.replaceChildren(
    element("h2", { text: selected }),
    fields,
    element("h3", { text: "History of writes" }),
    element("table", {},
      element("thead", {}, element("tr", {},
        element("th", { text: "Time" }), element("th", { text: "Write" }), element("th", { text: "Changed" }))),
      element("tbody", {}, ...history),
    ),
  );
}

async function showRequests() {
  const { requests } = await ask("requests");
  byId("requests").replaceChildren(
    ...requests.slice(0, 40).map(({ at, method, path, status, ms }) =>
      element("tr", {},
        element("td", { text: time(at) }),
        element("td", { class: "code", text: method + " " + path }),
        element("td", { class: "number " + (status && status < 400 ? "good" : "bad"), text: status ?? "cut" }),
        element("td", { class: "number", text: ms }),
      ),
    ),
  );
}

async function run(...steps) {
  try {
    for (const step of steps) await step();
    byId("entry").hidden = true;
    byId("content").hidden = false;
    byId("refused").textContent = "";
  } catch (error) {
    if (error instanceof Refused) {
      sessionStorage.removeItem("token");
      byId("entry").hidden = false;
      byId("content").hidden = true;
    }
    byId("refused").textContent = error.message;
  }
}

async function refresh() {
  clearTimeout(timer);
  if (sessionStorage.getItem("token") === null) {
    byId("entry").hidden = false;
    return;
  }
  const steps = [async () => showOverview(await ask("overview")), showRequests, showDetails];
  if (rows.length <= 50) steps.push(() => loadRows());
  await run(...steps);
  timer = setTimeout(refresh, REFRESH_MS);
}

byId("entry").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", byId("token").value.trim());
  byId("token").value = "";
  refresh();
});
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", () => run(() => loadRows()));
byId("more").addEventListener("click", () => run(() => loadRows(rows.at(-1).seq)));
refresh();
`;
