/** The tab Held: changes that wait for a person, to release or to drop. */
import type { FastifyRequest } from "fastify";
import { needsApproval } from "../approvals/decide.ts";
import { counted } from "../../base/counted.ts";
import { readOne } from "../../base/redis-reading.ts";
import { UserError } from "../../base/user-error.ts";
import { choose, dropHeld, releaseHeld, originOf } from "../decide-held.ts";
import { heldBecause } from "../../core/sync/record.ts";
import type { HeldTermination } from "../../core/state/held-terminations.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { askedView, askInstead, confirmForm } from "./approvals.ts";
import { may } from "../../base/person.ts";
import { html, pathTo, type Html, ago, table, type Column } from "./html.ts";
import { inOurWords } from "./words.ts";
import {
  crmLink,
  hiddenPicks,
  live,
  type Page,
  pickColumn,
  pickForm,
  picksIn,
  recordLink,
  tabPath,
  pageNumberOf,
  pager,
  queryOf,
  ROWS,
  type Pages,
} from "./pages.ts";

/** Held changes that one click decides: the oldest first. */
const MOST = 1000;

const PATH = tabPath("held");
const CONFIRM = `${PATH}/confirm`;

const ACTS = {
  release: {
    verb: "Release",
    does: "Each change is sent: its relation is terminated, or loses the fields that are named. That does not count towards the limit, and is not held again.",
  },
  drop: {
    verb: "Drop",
    does: "Each change is deleted for good, with fields that were to be sent along. Its relation stays as the service has it.",
  },
} as const;

type ActName = keyof typeof ACTS;

/** What a person has seen when deciding: those that were selected, or all that were held by then. */
interface Choice {
  readonly act: ActName;
  readonly picked: readonly { readonly code: string; readonly at: number }[] | undefined;
  /** When the newest of all was held, ms. */
  readonly at: number;
  /** Of all: only those from this source. */
  readonly source: string | undefined;
}

export function serveHeld(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  pages.show(PATH, async (request) => {
    const number = pageNumberOf(request);
    const { source } = queryOf(request);
    const { total, rows, newest } = await readPage(stores, number, source);
    const session = sessionOf(request);
    const codes = heldTable(ports, rows, session);
    const main = live(
      "held",
      total === 0
        ? html`<p class="dim">
            Terminations and emptied fields beyond their limits wait here until a person releases or
            drops them.
          </p>`
        : html`${explanation}${await askedView(ports, "held")}${sourceView(source)}${allActs(session, { total, newest, source })}${whyHeld(ports)}
          ${may(session.person, "act") ? pickForm(session, CONFIRM, { release: "Release selected…", drop: "Drop selected…" }, codes) : codes}
          ${pager(PATH, { source }, number, Math.ceil(total / ROWS))}`,
    );
    const heading =
      total === 0
        ? "No change is held"
        : `${counted(total, "held change waits", "held changes wait")} for a person`;
    return { title: "Held changes", heading, tab: "held", main };
  });
  const confirm = async (request: FastifyRequest): Promise<Page> => {
    const choice = choiceOf(request);
    const found = await find(stores, choice);
    const isAsked = await needsApproval(stores, "held");
    const main = confirmation(request, choice, found, isAsked);
    return { title: titleOf(choice, found.length), tab: "held", main };
  };
  pages.confirm(CONFIRM, confirm);
  pages.act(CONFIRM, confirm);
  pages.act(PATH, async (request) => {
    await stores.stateVersion.require();
    const choice = choiceOf(request);
    const found = await find(stores, choice);
    if (await needsApproval(stores, "held")) {
      const items = found.map(({ crmCode, version }) => [crmCode, version] as const);
      return askInstead(request, ports, { act: "held", what: choice.act }, items);
    }
    const decide = choice.act === "release" ? releaseHeld : dropHeld;
    const done = await decide(stores, actorOf(request), found);
    const did = choice.act === "release" ? "released" : "dropped";
    const left =
      done < found.length
        ? `; ${found.length - done} had been decided meanwhile, or replaced by a newer event`
        : "";
    return { path: PATH, says: `${countOf(done)} ${did}${left}.` };
  });
}

async function readPage(stores: Stores, number: number, source: string | undefined) {
  const from = (number - 1) * ROWS;
  if (source !== undefined) {
    const all = await choose(stores.heldTerminations, { source });
    const newest = all[Math.min(all.length, MOST) - 1]?.heldAt ?? 0;
    return { total: all.length, rows: all.slice(from, from + ROWS), newest };
  }
  const total = await readOne(stores.redis, stores.heldTerminations.count());
  const [rows, [last]] = await Promise.all([
    stores.heldTerminations.page(from, ROWS),
    stores.heldTerminations.page(Math.min(total, MOST) - 1, 1),
  ]);
  return { total, rows, newest: last?.heldAt ?? rows.at(-1)?.heldAt ?? 0 };
}

/** @throws UserError when what was seen is not held any more. */
async function find(
  { heldTerminations }: Stores,
  { at, picked, source }: Choice,
): Promise<HeldTermination[]> {
  const found =
    picked === undefined
      ? (source === undefined
          ? await heldTerminations.page(0, MOST)
          : (await choose(heldTerminations, { source })).slice(0, MOST)
        ).filter(({ heldAt }) => heldAt <= at)
      : await Promise.all(
          picked.map(async (seen) => {
            const one = await heldTerminations.find(seen.code);
            return one?.heldAt === seen.at ? one : undefined;
          }),
        );
  const held = found.filter((one) => one !== undefined);
  if (held.length === 0) {
    throw new UserError("this is not held any more: it was decided, or a newer event replaced it");
  }
  return held;
}

/** @throws UserError */
function choiceOf(request: FastifyRequest): Choice {
  const { act = formOf(request).get("act"), code, at = "0", source } = queryOf(request);
  const picks = picksIn(request);
  const seen = code === undefined ? picks : [{ code, at }];
  const picked = seen.map((one) => ({ code: one.code ?? "", at: Number(one.at) }));
  const isAll = at !== "0" && picked.length === 0;
  if (
    (act !== "release" && act !== "drop") ||
    (picked.length === 0 && !isAll) ||
    [Number(at), ...picked.map((one) => one.at)].some((ms) => !Number.isSafeInteger(ms))
  ) {
    throw new UserError("no held change is selected: choose on the page Held");
  }
  return { act, picked: isAll ? undefined : picked, at: Number(at), source };
}

const explanation = html`<p>
  Release them if the CRM is right, and they are sent. Drop them if it is not, and the service keeps
  what it has. All other changes go on.
</p>`;

const whyHeld = ({ stores }: ConsolePorts): Html =>
  html`<details id="why">
    <summary>Why changes are held</summary>
    <p>
      Held are terminations beyond the limit of 24 hours (TERMINATE_LIMIT, here
      ${stores.terminationGuard.limit}) or of a record that did not write the relation, and updates
      that empty a field of many relations (EMPTY_LIMIT). A broken export, a wrong mapping, a
      deleted duplicate or a right that the CRM's user has lost does that, too.
    </p>
  </details>`;

const sourceView = (source: string | undefined): Html | string =>
  source === undefined
    ? ""
    : html`<p class="notice">Only those from ${source}. <a href="${PATH}">Show all</a></p>`;

function allActs(
  { person }: Session,
  { newest, source, total }: { total: number; newest: number; source: string | undefined },
): Html | string {
  if (!may(person, "act")) return "";
  const count = Math.min(total, MOST);
  const which = total > MOST ? `the oldest ${count}` : `all ${count}`;
  return html`<p class="acts">
    ${(Object.keys(ACTS) as ActName[]).map(
      (act) =>
        html`<a
          id="${act}-all"
          class="button ${act}"
          href="${pathTo(CONFIRM, { act, at: newest, source })}"
          >${ACTS[act].verb} ${which}…</a
        >`,
    )}
  </p>`;
}

const heldTable = (
  ports: ConsolePorts,
  rows: readonly HeldTermination[],
  { person }: Session,
): Html =>
  table({
    caption: "Oldest first",
    rows,
    columns: [
      ...(may(person, "act") ? [PICK] : []),
      {
        heading: "crmCode",
        cell: ({ crmCode }) => recordLink(crmCode, html`<code>${crmCode}</code>`),
      },
      {
        heading: "What",
        cell(one) {
          const { source, subject, type } = originOf(one);
          return html`${type?.replace("crm.record.", "")} ${subject}${crmLink(ports, subject)}
            <span class="dim"
              >from
              ${source === undefined ? "an unknown source" : html`<a href="${pathTo(PATH, { source })}">${source}</a>`},
              ${ago(one.time)}</span
            >`;
        },
      },
      {
        heading: "Why it is held",
        cell: ({ fields, why }) => inOurWords(heldBecause(why, fields)),
      },
      { heading: "Held", cell: ({ heldAt }) => ago(heldAt) },
      ...(may(person, "act") ? [DECIDE] : []),
    ],
  });

const PICK = pickColumn(
  ({ crmCode, heldAt }: HeldTermination) => ({ code: crmCode, at: heldAt }),
  ({ crmCode }) => crmCode,
);

const DECIDE: Column<HeldTermination> = {
  heading: "Decide",
  hasActs: true,
  cell: (one) => decideLinks(one),
};

/** To the pages that release and drop one. */
export const decideLinks = (one: HeldTermination, style = ""): Html =>
  html`${linkTo("release", one, style)} ${linkTo("drop", one, style)}`;

function linkTo(act: ActName, { crmCode, heldAt }: HeldTermination, style: string): Html {
  const path = pathTo(CONFIRM, { act, code: crmCode, at: heldAt });
  return html`<a class="${style} ${act}" href="${path}" aria-label="${ACTS[act].verb} ${crmCode}…"
    >${ACTS[act].verb}…</a
  >`;
}

function confirmation(
  request: FastifyRequest,
  choice: Choice,
  found: readonly HeldTermination[],
  isAsked: boolean,
): Html {
  const { act } = choice;
  const { does, verb } = ACTS[act];
  const { code, at, source } = queryOf(request);
  const path = pathTo(PATH, { act, code, at, source });
  const shown = found.slice(0, ROWS);
  return html`<p>${does}</p>
    ${confirmForm(sessionOf(request), path, { does: `${verb} ${countOf(found.length)}`, back: PATH, isAsked, buttons: act === "drop" ? "drop" : "main", hidden: hiddenPicks(request) })}
    <ul>
      ${shown.map((one) => html`<li><code>${one.crmCode}</code> ${originOf(one).subject}</li>`)}
    </ul>
    ${found.length > shown.length && html`<p>and ${found.length - shown.length} more</p>`}`;
}

const titleOf = ({ act }: Choice, count: number): string => `${ACTS[act].verb} ${countOf(count)}?`;

const countOf = (count: number): string => counted(count, "held change");
