/** The tab Held: changes that wait for a person, to release or to drop. */
import type { FastifyRequest } from "fastify";
import { needsApproval } from "../approvals/decide.ts";
import { counted } from "../ops/counted.ts";
import { readOne } from "../ops/redis-reading.ts";
import { UserError } from "../ops/user-error.ts";
import { dropHeld, releaseHeld, originOf } from "../held/decide.ts";
import { heldBecause } from "../sync/record.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { actorOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { askedView, askInstead, confirmForm } from "./approvals.ts";
import { may } from "../people/person.ts";
import { html, pathTo, type Html, ago, table, type Column } from "./html.ts";
import {
  live,
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

/** What a person has seen when deciding: one of them, or all that were held by then. */
interface Choice {
  readonly act: ActName;
  readonly code: string | undefined;
  /** When this change, or the newest of all, was held, ms. */
  readonly at: number;
}

export function serveHeld(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  pages.show(PATH, async (request) => {
    const number = pageNumberOf(request);
    const { total, rows, newest } = await readPage(stores, number);
    const main = live(
      "held",
      total === 0
        ? html`<p class="dim">
            Terminations and emptied fields beyond their limits wait here until a person releases or
            drops them.
          </p>`
        : html`${explanation}${await askedView(ports, "held")}${allActs(sessionOf(request), total, newest)}${whyHeld(ports)}
          ${heldTable(rows, sessionOf(request))}${pager(PATH, {}, number, Math.ceil(total / ROWS))}`,
    );
    const heading =
      total === 0
        ? "No change is held"
        : `${counted(total, "held change waits", "held changes wait")} for a person`;
    return { title: "Held changes", heading, tab: "held", main };
  });
  pages.confirm(CONFIRM, async (request) => {
    const choice = choiceOf(request);
    const found = await find(stores, choice);
    const isAsked = await needsApproval(stores, "held");
    const main = confirmation(sessionOf(request), choice, found, isAsked);
    return { title: titleOf(choice, found.length), tab: "held", main };
  });
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

async function readPage(stores: Stores, number: number) {
  const total = await readOne(stores.redis, stores.heldTerminations.count());
  const [rows, [last]] = await Promise.all([
    stores.heldTerminations.page((number - 1) * ROWS, ROWS),
    stores.heldTerminations.page(Math.min(total, MOST) - 1, 1),
  ]);
  return { total, rows, newest: last?.heldAt ?? rows.at(-1)?.heldAt ?? 0 };
}

/** @throws UserError when what was seen is not held any more. */
async function find(stores: Stores, { code, at }: Choice): Promise<HeldTermination[]> {
  const found =
    code === undefined
      ? (await stores.heldTerminations.page(0, MOST)).filter(({ heldAt }) => heldAt <= at)
      : [await stores.heldTerminations.find(code)].filter((one) => one?.heldAt === at);
  const held = found.filter((one) => one !== undefined);
  if (held.length === 0) {
    throw new UserError("this is not held any more: it was decided, or a newer event replaced it");
  }
  return held;
}

/** @throws UserError */
function choiceOf(request: FastifyRequest): Choice {
  const { act, code, at } = queryOf(request);
  if ((act !== "release" && act !== "drop") || !/^\d{1,16}$/.test(at ?? "")) {
    throw new UserError("this address names no held changes: choose on the page Held");
  }
  return { act, code, at: Number(at) };
}

const explanation = html`<p>
  Release them if the CRM is right, and they are sent. Drop them if it is not, and the service keeps
  what it has. All other changes go on.
</p>`;

const whyHeld = ({ stores }: ConsolePorts): Html =>
  html`<details id="why">
    <summary>Why changes are held</summary>
    <p>
      Held are terminations beyond TERMINATE_LIMIT (${stores.terminationGuard.limit}) or of a record
      that did not write the relation, and updates that empty a field of many relations
      (EMPTY_LIMIT). A broken export, a wrong mapping, a deleted duplicate or a right that the CRM's
      user has lost does that, too.
    </p>
  </details>`;

function allActs({ person }: Session, total: number, newest: number): Html | string {
  if (!may(person, "act")) return "";
  const count = Math.min(total, MOST);
  const which = total > MOST ? `the oldest ${count}` : `all ${count}`;
  return html`<p class="acts">
    ${(Object.keys(ACTS) as ActName[]).map(
      (act) =>
        html`<a id="${act}-all" class="button ${act}" href="${pathTo(CONFIRM, { act, at: newest })}"
          >${ACTS[act].verb} ${which}…</a
        >`,
    )}
  </p>`;
}

const heldTable = (rows: readonly HeldTermination[], { person }: Session): Html =>
  table({
    caption: "Oldest first",
    rows,
    columns: [
      {
        heading: "crmCode",
        cell: ({ crmCode }) => recordLink(crmCode, html`<code>${crmCode}</code>`),
      },
      {
        heading: "What",
        cell(one) {
          const { source, subject, type } = originOf(one);
          return html`${type?.replace("crm.record.", "")} ${subject}
            <span class="dim">from ${source}, ${ago(one.time)}</span>`;
        },
      },
      { heading: "Why it is held", cell: ({ fields, why }) => heldBecause(why, fields) },
      { heading: "Held", cell: ({ heldAt }) => ago(heldAt) },
      ...(may(person, "act") ? [DECIDE] : []),
    ],
  });

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
  session: Session,
  choice: Choice,
  found: readonly HeldTermination[],
  isAsked: boolean,
): Html {
  const { act, code, at } = choice;
  const { does, verb } = ACTS[act];
  const path = pathTo(PATH, { act, code, at });
  const shown = found.slice(0, ROWS);
  return html`<p>${does}</p>
    ${confirmForm(session, path, { does: `${verb} ${countOf(found.length)}`, back: PATH, isAsked, buttons: act === "drop" ? "drop" : "main" })}
    <ul>
      ${shown.map((one) => html`<li><code>${one.crmCode}</code> ${originOf(one).subject}</li>`)}
    </ul>
    ${found.length > shown.length && html`<p>and ${found.length - shown.length} more</p>`}`;
}

const titleOf = ({ act }: Choice, count: number): string => `${ACTS[act].verb} ${countOf(count)}?`;

const countOf = (count: number): string => counted(count, "held change");
