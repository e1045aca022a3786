/** The tab Audit: who changed what, from the audit trail on this machine, and its export. */
import type { FastifyRequest } from "fastify";
import { Readable } from "node:stream";
import { whereOf } from "../audit/file-sink.ts";
import { LineHashes, type Line } from "../audit/line.ts";
import {
  allLines,
  atOf,
  auditFiles,
  findLines,
  textOf,
  type AuditFilter,
  type Place,
} from "../audit/search.ts";
import { Refusal } from "../../intake/http/limits.ts";
import { counted } from "../../base/counted.ts";
import { csvLine } from "../../base/csv-line.ts";
import { nameText } from "../../base/person.ts";
import { UserError } from "../../base/user-error.ts";
import { RecordNames } from "../../core/state/record-names.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts } from "./access.ts";
import { html, pathTo, type Html, moment, table } from "./html.ts";
import { postForm, recordCell, tabPath, queryOf, ROWS, type Pages } from "./pages.ts";

const PATH = tabPath("audit");
const EXPORT = `${PATH}/export`;

const DAY_MS = 86_400_000;

/** What lines are asked for by, and its words. */
const KINDS: Readonly<Record<string, string>> = {
  "": "everything",
  change: "all changes at the service",
  created: "created",
  updated: "updated",
  terminated: "terminated",
  uncertain: "given up, perhaps applied",
  held: "held changes released or dropped",
  approval: "approvals asked and decided",
  dead: "dead letters",
  reconcile: "comparisons and plans",
  bulk: "imports paused, resumed, cancelled",
  forget: "persons forgotten",
  console: "sign-ins and exports",
  process: "starts and settings",
  secret: "secrets replaced",
  outcome: "what the CRM was told",
};

const FIELDS = ["person", "record", "what", "from", "to"] as const;
type Asked = Readonly<Record<(typeof FIELDS)[number], string>>;

/** Searches that may wait while another one reads its 32 MB: changes are to be sent meanwhile. */
const MOST_WAITING = 5;

export function serveAudit(pages: Pages, ports: ConsolePorts): void {
  const { auditActs, config } = ports.stores;
  const inTurn = createTurns();
  pages.show(PATH, async (request) => {
    const asked = askedIn(queryOf(request));
    const main = html`${filterForm(asked)}${await inTurn(() => results(request, asked, ports))}`;
    return { title: "Audit", heading: "Who changed what", tab: "audit", main };
  });
  pages.app.post(EXPORT, async (request, reply) => {
    const form = formOf(request);
    const asked = askedIn(Object.fromEntries(form));
    await ports.countExport(request, nameText(sessionOf(request).person));
    const hashes = new LineHashes(config.auditKeys);
    const format = form.get("format") === "csv" ? "csv" : "ndjson";
    const files = await auditFiles(pathOf(config.AUDIT_LOG));
    const filter = await filterOf(asked, ports);
    await auditActs.record({
      act: "console.export",
      by: actorOf(request),
      details: { ...asked, format },
    });
    const name = `audit-${new Date(Date.now()).toISOString().slice(0, 10)}.${format}`;
    return reply
      .type(format === "csv" ? "text/csv; charset=utf-8" : "application/x-ndjson")
      .header("content-disposition", `attachment; filename="${name}"`)
      .send(Readable.from((format === "csv" ? asCsv : asLines)(files, filter, hashes)));
  });
}

/** Does one after the other. @throws Refusal when too many wait */
function createTurns() {
  let count = 0;
  let last: Promise<unknown> = Promise.resolve();
  return async <T>(act: () => Promise<T>): Promise<T> => {
    if (count > MOST_WAITING) {
      throw new Refusal(429, "Other searches are under way: wait some seconds and search again.", {
        "retry-after": "5",
      });
    }
    count += 1;
    const turn = last.then(act).finally(() => (count -= 1));
    last = turn.catch(() => {});
    return turn;
  };
}

const askedIn = (values: Readonly<Record<string, string | undefined>>): Asked =>
  Object.fromEntries(FIELDS.map((name) => [name, (values[name] ?? "").trim()])) as Asked;

/** @throws UserError without a file. */
function pathOf(auditLog: string | undefined): string {
  if (auditLog === undefined)
    throw new UserError("no audit trail is kept: set AUDIT_LOG to the path of a file");
  if (auditLog === "stdout")
    throw new UserError("the audit trail goes to stdout (AUDIT_LOG), so it is where that is kept");
  return auditLog;
}

/** @throws UserError */
async function filterOf(asked: Asked, { stores }: ConsolePorts): Promise<AuditFilter> {
  const { person, record, what } = asked;
  const names = record === "" ? undefined : await new RecordNames(stores).find(record);
  const to = dayOf(asked.to);
  return {
    person: person || undefined,
    crmCodes: names?.crmCodes,
    what: what || undefined,
    from: dayOf(asked.from),
    to: to && to + DAY_MS,
  };
}

function dayOf(text: string): number | undefined {
  if (text === "") return undefined;
  const at = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(at)) throw new UserError(`${text} is not a date: write it as 2026-11-27`);
  return at;
}

async function results(request: FastifyRequest, asked: Asked, ports: ConsolePorts): Promise<Html> {
  const { stores } = ports;
  const { AUDIT_LOG } = stores.config;
  if (AUDIT_LOG === undefined || AUDIT_LOG === "stdout") {
    return html`<p class="notice warning">
      ${
        AUDIT_LOG === undefined
          ? "No audit trail is kept, so nobody can say later who changed what. Set AUDIT_LOG to the path of a file."
          : "The audit trail goes to stdout (AUDIT_LOG=stdout). Search it where that output is kept."
      }
    </p>`;
  }
  const [files, others] = await Promise.all([auditFiles(AUDIT_LOG), elsewhere(AUDIT_LOG, ports)]);
  if (files.length === 0)
    return html`<p>The file ${AUDIT_LOG} is not there yet: no line was written.</p>
      ${others}`;
  const filter = await filterOf(asked, ports);
  const from = placeIn(queryOf(request)["before"], files);
  const { lines, next, searchedTo } = await findLines(files, filter, { most: ROWS, from });
  const hashes = new LineHashes(stores.config.auditKeys);
  const compressed = files.filter((file) => file.endsWith(".gz")).length;
  return html`${lines.length === 0 ? html`<p>No line fits.</p>` : linesTable(ports, lines, hashes)}
    <p class="dim">
      ${searchedTo !== undefined && html`Searched back to ${moment(Date.parse(searchedTo))}. `}${
        compressed > 0 &&
        `Older lines lie in ${counted(compressed, "compressed file")}: an export has them. `
      }Days
      begin at midnight UTC.
    </p>
    ${
      next !== undefined &&
      html`<nav class="pager" aria-label="Pages of this list">
        <a rel="next" href="${pathTo(PATH, { ...asked, before: placeText(next, files) })}"
          >Older lines</a
        >
      </nav>`
    }
    ${exportForm(request, asked)}${others}`;
}

/** The number of the file, 0 for the newest one, and a byte of it. */
const placeText = ({ file, end }: Place, files: readonly string[]): string =>
  `${files.indexOf(file)}-${end}`;

function placeIn(text: string | undefined, files: readonly string[]): Place | undefined {
  const [, number, end] = /^(\d{1,4})-(\d{1,15})$/.exec(text ?? "") ?? [];
  const file = files[Number(number)];
  return file === undefined ? undefined : { file, end: Number(end) };
}

/** Trails of other processes, of which Redis knows the newest line. */
async function elsewhere(path: string, { stores }: ConsolePorts): Promise<Html | string> {
  const heads = [...(await stores.auditActs.heads()).values()];
  const others = [...new Set(heads.map(({ where }) => where))].filter((at) => at !== whereOf(path));
  if (others.length === 0) return "";
  return html`<p class="dim">Not searched, because they lie elsewhere: ${others.join("; ")}.</p>`;
}

const filterForm = ({ from, person, record, to, what }: Asked): Html =>
  html`<form action="${PATH}" class="filters" role="search" aria-label="Lines of the audit trail">
    <label
      >Person <input name="person" value="${person}" maxlength="100" placeholder="anna"
    /></label>
    <label>
      Record
      <input name="record" value="${record}" maxlength="500" placeholder="crmCode or contact/7" />
    </label>
    <label>
      What
      <select name="what">
        ${Object.entries(KINDS).map(
          ([kind, words]) =>
            html`<option value="${kind}" ${kind === what && html` selected`}>${words}</option>`,
        )}
      </select>
    </label>
    <label>From <input type="date" name="from" value="${from}" /></label>
    <label>To <input type="date" name="to" value="${to}" /></label>
    <button class="main">Find</button>
  </form>`;

const exportForm = (request: FastifyRequest, asked: Asked): Html =>
  postForm(
    sessionOf(request),
    EXPORT,
    html`${FIELDS.map((name) => html`<input type="hidden" name="${name}" value="${asked[name]}" />`)}
      <p class="acts">
        <button name="format" value="csv">Export as CSV</button>
        <button name="format" value="ndjson">Export as JSON lines</button>
      </p>`,
  );

const linesTable = (ports: ConsolePorts, lines: readonly Line[], hashes: LineHashes): Html =>
  table({
    caption: "The newest first",
    // An act has its line up to a second later than the change that it has let go.
    rows: lines.toSorted((a, b) => Date.parse(atOf(b) ?? "") - Date.parse(atOf(a) ?? "") || 0),
    columns: [
      { heading: "When", cell: (line) => moment(Date.parse(atOf(line) ?? ""), "–", "exact") },
      { heading: "What", cell: whatCell },
      { heading: "Record", cell: (line) => recordsCell(ports, line) },
      { heading: "Who", cell: whoCell },
      { heading: "Line", cell: (line) => lineCell(line, hashes) },
    ],
  });

const OUTCOMES: Readonly<Record<string, string>> = { uncertain: "given up; perhaps applied" };

function whatCell({ fields }: Line): Html {
  const { act, asked, fieldsChanged, fieldsEmptied, outcome, settings, ...rest } = fields;
  if (act === "change") {
    const emptied = namesIn(fieldsEmptied);
    const changed = namesIn(fieldsChanged).filter((name) => !emptied.includes(name));
    const parts = [changed.join(", "), emptied.length > 0 && `${emptied.join(", ")} emptied`];
    const text = parts.filter((part) => part).join("; ");
    const isUnknown = outcome === "updated" && text === "";
    return html`<strong>${OUTCOMES[textOf(outcome)] ?? textOf(outcome)}</strong
      >${text && `: ${text}`}${isUnknown && "; which fields changed is not known"}`;
  }
  const more = Object.entries(rest)
    .filter(([name, value]) => !UNTOLD.has(name) && value !== "")
    .map(([name, value]) => `${name} ${namesIn([value].flat()).join(" ")}`);
  const { APPROVALS: acts = "", OPERATOR_TOKEN: token = "none" } = (settings ?? {}) as Readonly<
    Record<string, unknown>
  >;
  const alone =
    acts === ""
      ? "no act needs two persons"
      : `two persons for ${said(acts).replaceAll(",", ", ")}`;
  const rule =
    act === "process.start" ? [`${alone} (APPROVALS)`, `OPERATOR_TOKEN ${said(token)}`] : [];
  const text = [...rule, ...more].join(", ");
  return html`${ACTS[textOf(act)] ?? textOf(act).replaceAll(".", ": ").replaceAll("_", " ")}${
    typeof asked === "string" && ` ${asked}`
  }${act === "outcome.told" && html`: <strong>${textOf(outcome)}</strong>`}${text !== "" && html` <span class="dim">${text}</span>`}`;
}

/** Acts in words; of an approval, what was asked follows. */
const ACTS: Readonly<Record<string, string>> = {
  "approval.ask": "asked to",
  "approval.approve": "approved to",
  "approval.expire": "ended, not carried out, the ask to",
  "approval.reject": "rejected to",
  "bulk.cancel": "cancelled imports",
  "bulk.pause": "paused imports",
  "bulk.resume": "let imports go on",
  "console.export": "exported a list",
  "console.login": "logged in",
  "dead.drop": "dropped a dead letter",
  "dead.redrive": "tried a dead letter again",
  "dead.show": "read the event of a dead letter",
  "event.show": "read the event of a change that waits",
  forget: "erased a person",
  "held.drop": "dropped a held change",
  "held.release": "released a held change",
  "ledger.forget": "let the service be asked again",
  "lists.refresh": "asked for the tenant's value lists",
  "process.start": "a process started",
  "outcome.told": "told the CRM (OUTCOME_WEBHOOK)",
  push: "sent events by hand",
  "reconcile.apply": "carried out a plan",
  certify: "made a certificate",
  "interruption.begin": "sending or intake was interrupted",
  "interruption.end": "the interruption has ended",
  "shadow.show": "read values of changes that wait",
  "reconcile.compare": "compared the CRM with the service",
  "reconcile.forget": "dismissed a plan",
  "reconcile.show": "made a report with values",
  "relation.show": "read what the service has",
  "secret.replaced": "a secret was replaced",
};

/** Fields of a line that have a column of their own, or that nobody looks for here. */
const UNTOLD: ReadonlySet<string> = new Set(
  "at id crmCode crmCodes letters subject event by approvedBy version mapping mappingHash".split(
    " ",
  ),
);

const namesIn = (value: unknown): string[] => (Array.isArray(value) ? value.map(said) : []);

/** One line with a value that cannot be shown, which anybody may have written, must not hide the others. */
function said(value: unknown): string {
  if (typeof value === "string") return value;
  try {
    return value === undefined || value === null ? "" : JSON.stringify(value);
  } catch {
    return "(nested too deeply)";
  }
}

/** Records that a cell names; the line, in an export, has all of them. */
const MOST_LINKS = 3;

function recordsCell(
  ports: ConsolePorts,
  { fields: { crmCode, crmCodes, letters } }: Line,
): Html | string {
  if (typeof crmCode === "string") return recordCell(ports, crmCode);
  const codes = namesIn(crmCodes);
  const all = codes.length > 0 ? codes : namesIn(letters);
  const shown = all
    .slice(0, MOST_LINKS)
    .map((one) => (codes.length > 0 ? recordCell(ports, one) : one));
  return html`${shown.map((one) => html`${one} `)}${all.length > MOST_LINKS && `and ${all.length - MOST_LINKS} more`}`;
}

/** A change is made by a process, because an event of the CRM asked for it. */
function whoCell({ fields }: Line): Html {
  const { act, approvedBy, by, event } = fields;
  const source = (event as { source?: unknown } | undefined)?.source;
  const text = act === "change" ? `event of ${textOf(source) || "?"}` : textOf(by) || "–";
  return html`${text}${typeof approvedBy === "string" && html`<br />approved by ${approvedBy}`}`;
}

function lineCell(line: Line, hashes: LineHashes): Html {
  const says = PROOFS[hashes.proof(line)];
  const text = `${line.seq}`;
  if (says === "") return html`<span class="number">${text}</span>`;
  return html`<span class="bad">${text}: ${says}</span>`;
}

const PROOFS = {
  right: "",
  wrong: "it was changed",
  unknown_key: "its AUDIT_KEY is not known",
  no_key: "made without AUDIT_KEY: anybody can have written it",
} as const;

const COLUMNS = [
  "at",
  "act",
  "outcome",
  "crmCode",
  "fieldsChanged",
  "fieldsEmptied",
  "fieldsSent",
  "source",
  "eventId",
  "by",
  "approvedBy",
  "more",
  "chain",
  "seq",
  "doubt",
] as const;

async function* asCsv(
  files: readonly string[],
  filter: AuditFilter,
  hashes: LineHashes,
): AsyncGenerator<string> {
  // Excel takes a file for UTF-8 only with this mark.
  yield `\ufeff${csvLine(COLUMNS)}`;
  for await (const { line } of allLines(files, filter)) {
    const { at, act, outcome, crmCode, event, by, approvedBy, ...others } = line.fields;
    const { fieldsChanged, fieldsEmptied, fieldsSent, ...rest } = others;
    const { id, source } = (event ?? {}) as { id?: unknown; source?: unknown };
    const names = [fieldsChanged, fieldsEmptied, fieldsSent].map((value) =>
      namesIn(value).join(" "),
    );
    const more = Object.keys(rest).length === 0 ? "" : rest;
    const cells = [at, act, outcome, crmCode, ...names, source, id, by, approvedBy, more];
    yield csvLine([...cells, line.chain, line.seq, PROOFS[hashes.proof(line)]].map(said));
  }
}

/** As they stand in their files; a doubt follows the hash, so that what was hashed stays as it is. */
async function* asLines(
  files: readonly string[],
  filter: AuditFilter,
  hashes: LineHashes,
): AsyncGenerator<string> {
  for await (const { line, text } of allLines(files, filter)) {
    const doubt = PROOFS[hashes.proof(line)];
    const whole = Buffer.from(text, "latin1").toString("utf8");
    yield `${doubt === "" ? whole : `${whole.slice(0, -1)},"doubt":${JSON.stringify(doubt)}}`}\n`;
  }
}
