/** Tries the mapping of this process on a record: what `crmsync preview` shows of it. Nothing is stored or sent. */
import { stripVTControlCharacters } from "node:util";
import type { FastifyRequest } from "fastify";
import { may } from "../../base/person.ts";
import { UserError } from "../../base/user-error.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import { openEvents } from "../../core/state/staged-values.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { previewOne, type Preview } from "../../whole/preview/preview-one.ts";
import { sendingOf, wordsOf } from "../../whole/preview/print.ts";
import { inputsOfText, type PreviewInput } from "../../whole/preview/read-records.ts";
import { openReader, storedView } from "../../whole/preview/service-view.ts";
import { eventOf, subjectOf } from "../dead-letters/stored-event.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { ago, html, pathTo, table, type Html } from "./html.ts";
import { postForm, tabPath, type Page, type Pages } from "./pages.ts";
import { inOurWords } from "./words.ts";

const PATH = `${tabPath("records")}/try`;

/** Records of one text that are shown. */
const MOST_SHOWN = 20;

/** Events of each kind that can be picked: of records that wait, and the newest dead letters. */
const PICKED = 5;

export function serveTry(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  pages.confirm(PATH, async (request) =>
    page(sessionOf(request), ports, { text: "" }, await events(stores)),
  );
  pages.act(PATH, async (request) => {
    const form = formOf(request);
    const given = (name: string) => form.get(name)?.trim() || undefined;
    const pick = given("pick");
    const text = pick === undefined ? (given("text") ?? "") : await textOf(request, ports, pick);
    const tried = { text, object: given("object"), id: given("id") };
    const isAsked = form.get("ask") !== null;
    // With a fault, what was pasted stays in the form.
    const result = await tryText(request, ports, tried, isAsked).catch((error: unknown) => {
      if (error instanceof UserError) return error.message;
      throw error;
    });
    const shown = page(sessionOf(request), ports, tried, await events(stores), result);
    return typeof result === "string" ? { ...shown, status: 400 } : shown;
  });
}

async function tryText(
  request: FastifyRequest,
  ports: ConsolePorts,
  tried: Tried,
  isAsked: boolean,
): Promise<Result> {
  const { mapping, stores } = ports;
  const inputs = await read(tried, ports);
  if (isAsked && inputs.length > 1) throw new UserError("one request is spent for one record only");
  const reader = isAsked ? openReader(stores.config, stores) : undefined;
  try {
    await stores.tenantLists.reload();
    const view = await storedView(stores, mapping.keeps, async (crmCode) => {
      const by = actorOf(request);
      // What the service has of a person is shown: who asks is recorded.
      await stores.auditActs.record({ act: "relation.show", by, crmCode });
      return reader?.read(crmCode);
    });
    const shown = { ...view, ask: isAsked ? view.ask : undefined };
    const previews: Preview[] = [];
    for (const input of inputs.slice(0, MOST_SHOWN)) {
      previews.push(await previewOne(input, mapping, shown));
    }
    return { previews, total: inputs.length, isAsked };
  } finally {
    await reader?.close();
  }
}

interface Tried {
  readonly text: string;
  readonly object?: string | undefined;
  readonly id?: string | undefined;
}

interface Result {
  readonly previews: readonly Preview[];
  /** Records in the text. */
  readonly total: number;
  /** The service was asked. */
  readonly isAsked: boolean;
}

async function read(
  { id, object, text }: Tried,
  { mapping }: ConsolePorts,
): Promise<readonly PreviewInput[]> {
  const options = { ...(object !== undefined && { object }), ...(id !== undefined && { id }) };
  try {
    return (await inputsOfText("the text", text, mapping, options)).inputs;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    // The options of the command are fields of this page.
    const says = error.message
      .replace(/give --object, one of/, "write into the field Object one of")
      .replace(/give --id/, "write it into the field Id");
    throw new UserError(says);
  }
}

/** An event holds personal data: who reads it is recorded. */
async function textOf(
  request: FastifyRequest,
  { stores }: ConsolePorts,
  pick: string,
): Promise<string> {
  const { code, id = "" } = Object.fromEntries(new URLSearchParams(pick));
  const one = code === undefined ? await stores.deadLetters.find(id) : await waiting(stores, code);
  if (one === undefined) throw new UserError("this event is not kept any more: pick another one");
  const by = actorOf(request);
  const { crmCode } = one;
  await (code === undefined
    ? stores.auditActs.record({ act: "dead.show", by, crmCode, details: { letter: id } })
    : stores.auditActs.record({ act: "event.show", by, crmCode }));
  const event = eventOf(one);
  return typeof event === "string" ? event : JSON.stringify(event, undefined, 2);
}

/** An event that is kept with its values. */
interface KeptEvent extends Pick<StoredDeadLetter, "at" | "crmCode" | "event" | "source"> {
  /** Of a dead letter. */
  readonly id?: string | undefined;
}

async function events(stores: Stores): Promise<KeptEvent[]> {
  const { deadLetters, keys, line, redis } = stores;
  const [live, bulk, ids] = await Promise.all([
    line.oldest("live", PICKED),
    line.oldest("bulk", PICKED),
    redis.zrevrange(keys.deadAges, 0, PICKED - 1),
  ]);
  const found = await Promise.all([...live, ...bulk].map((one) => waiting(stores, one.crmCode)));
  return [
    ...found.filter((one) => one !== undefined),
    ...(await Array.fromAsync(deadLetters.read(ids))),
  ];
}

async function waiting(
  { records, sealing }: Stores,
  crmCode: string,
): Promise<KeptEvent | undefined> {
  const { staged } = await records.read(crmCode);
  if (staged === undefined) return undefined;
  // What cannot be opened hides no other one.
  const opened = await openEvents(staged, crmCode, sealing).catch(() => undefined);
  const { source } = JSON.parse(opened?.event ?? "{}") as { source?: string };
  return opened && { at: staged.since, crmCode, event: opened.event, source };
}

function page(
  session: Session,
  { mapping }: ConsolePorts,
  tried: Tried,
  kept: readonly KeptEvent[],
  result?: Result | string,
): Page {
  const main = html`${
    typeof result === "string"
      ? html`<p class="notice bad" role="alert"><span class="says">${inOurWords(result)}</span></p>`
      : result === undefined
        ? intro
        : resultView(session, tried, result)
  }
  ${postForm(session, PATH, fields(tried, mapping.objects))}
  ${
    kept.length > 0 &&
    html`<h2>Or pick one of the last events</h2>
      <p class="dim">
        Events are kept with their values only while their record waits, or as a dead letter. Who
        opens one is recorded in the audit trail, if one is kept.
      </p>
      ${postForm(session, PATH, eventsTable(kept))}`
  }`;
  return { title: `Try the mapping ${mapping.name.split("/").at(-1) ?? ""}`, tab: "records", main };
}

const intro = html`<p>
  Paste a record as the CRM's API returns it, an event, or the body of a webhook: see what the
  mapping of this process makes of it. Nothing is stored and nothing is sent.
</p>`;

/** To the page; of a session that may act. */
export const tryLink = ({ person }: Session): Html | false =>
  may(person, "act") && html`<p><a href="${PATH}">Try the mapping on a record</a></p>`;

/** Tries the event of a dead letter. @param letter its id */
export const tryForm = (session: Session, letter: string): Html =>
  postForm(
    session,
    PATH,
    html`<input type="hidden" name="pick" value="${pathTo("", { id: letter }).slice(1)}" /><button>
        Try the mapping on it
      </button>`,
  );

const NEW_LINE = html`&#10;`;

/** The text of a person as it was, but for blanks between its parts. */
const editable = (text: string): Html[] =>
  text
    .replaceAll("\r", "")
    .replaceAll("\t", "  ")
    .split("\n")
    .map((line, n) => html`${n > 0 && NEW_LINE}${line}`);

const fields = ({ id, object, text }: Tried, objects: readonly string[]): Html =>
  html`<div class="try">
    <label for="text">Record, event or webhook body, as JSON or CSV</label>
    <textarea id="text" name="text" rows="${text === "" ? 12 : 6}" spellcheck="false" required>
${editable(text)}</textarea>
    <div class="filters">
      <label
        >Object of the CRM${objects.length > 0 && ` (${objects.join(", ")})`}, if the record does
        not say it <input name="object" value="${object ?? ""}" maxlength="200"
      /></label>
      <label
        >Id, if the record does not have it <input name="id" value="${id ?? ""}" maxlength="500"
      /></label>
    </div>
    <p class="acts"><button class="main">Show what becomes of it</button></p>
  </div>`;

const eventsTable = (kept: readonly KeptEvent[]): Html =>
  table({
    rows: kept,
    columns: [
      { heading: "Record", cell: nameOf },
      { heading: "Kept", cell: ({ id }) => (id === undefined ? "it waits" : "as a dead letter") },
      { heading: "Source", cell: ({ source }) => source ?? "not known" },
      { heading: "Since", cell: ({ at }) => ago(at) },
      {
        heading: "Try",
        // The name of a record, or a letter, comes back as it was, of any text.
        cell: ({ id, ...one }) =>
          html`<button
            name="pick"
            value="${pathTo("", id === undefined ? { code: one.crmCode } : { id }).slice(1)}"
            aria-label="Try it: ${nameOf(one)}"
          >
            Try it
          </button>`,
      },
    ],
  });

const nameOf = (one: KeptEvent): string => subjectOf(one) ?? one.crmCode ?? "not named";

const TONES = {
  passes: "good",
  ignored: "warning",
  "to fetch": "warning",
  "dead letter": "bad",
} as const;

function resultView(session: Session, tried: Tried, { isAsked, previews, total }: Result): Html {
  const [only] = previews;
  const canAsk = total === 1 && only?.result === "passes" && only.crmCode !== undefined && !isAsked;
  return html`${total > previews.length && html`<p>The first ${previews.length} of ${total} records:</p>`}
  ${previews.map(previewView)}
  ${
    canAsk &&
    postForm(
      session,
      PATH,
      html`<textarea name="text" hidden aria-label="The text">${editable(tried.text)}</textarea>
        <input type="hidden" name="object" value="${tried.object ?? ""}" />
        <input type="hidden" name="id" value="${tried.id ?? ""}" />
        <p class="acts">
          <button name="ask" value="1">Compare with the service</button>
          <span class="dim"
            >It spends one request of the hour, and shows values: that is recorded.</span
          >
        </p>`,
    )
  }`;
}

const show = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value));

function previewView(preview: Preview): Html {
  const { changes = [], crmCode, owner, payload, problems, result, subject, warnings } = preview;
  const [says = "", ...more] = sendingOf({
    ...preview,
    ...(preview.changes && { changes: [] }),
  }).map((line) => inOurWords(stripVTControlCharacters(line)).trim().replace(/[:;]$/, ""));
  const named = [crmCode && `crmCode ${crmCode}`, owner && `owner ${owner}`].filter(Boolean);
  return html`<section>
    <p class="notice ${TONES[result]}">
      <span class="says"
        ><strong>${subject}</strong> ${result}${named.length > 0 && ` (${named.join(", ")})`}:
        ${says}${more.length > 0 && `; ${more.join(" ")}`}</span
      >
    </p>
    ${
      problems.length + warnings.length > 0 &&
      html`<ul>
        ${problems.map(({ field, kind, rule }) => html`<li class="bad">${field || "the record"} ${rule} (it is ${kind})</li>`)}${warnings.map(
          (warning) => html`<li class="warning">${warning.field}: ${wordsOf(warning)}</li>`,
        )}
      </ul>`
    }
    ${
      changes.length > 0 &&
      table({
        caption: "What would change at the service",
        rows: changes,
        columns: [
          { heading: "Field", cell: ({ field }) => field },
          { heading: "It has", cell: ({ before }) => show(before) },
          { heading: "It would get", cell: ({ after }) => show(after) },
        ],
      })
    }
    ${
      payload !== undefined &&
      table({
        caption: "The payload",
        rows: Object.entries(payload).filter(([field]) => field !== "crmCode"),
        columns: [
          { heading: "Field", cell: ([field]) => field },
          { heading: "Value", cell: ([, value]) => show(value) },
        ],
      })
    }
  </section>`;
}
