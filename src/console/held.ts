/** The tab Held: changes that wait for a person, to release or to drop. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { counted } from "../ops/counted.ts";
import { readOne } from "../ops/redis-reading.ts";
import { UserError } from "../ops/user-error.ts";
import { dropHeld, releaseHeld } from "../held/decide.ts";
import { originOf } from "../held/origin.ts";
import { heldBecause } from "../sync/staged-state.ts";
import type { HeldTermination } from "../state/held-terminations.ts";
import type { Stores } from "../status/stores.ts";
import { limitNow } from "../status/termination-findings.ts";
import { actorOf, requireOperator, sessionOf } from "./access.ts";
import { may } from "../people/person.ts";
import { html, pathTo, type Html } from "./html.ts";
import { live, postForm, tabPath } from "./layout.ts";
import { moment } from "./moment.ts";
import type { ConsolePorts } from "./ports.ts";
import { pageNumberOf, pager, queryOf, ROWS, sendBack, sendPage } from "./send-page.ts";
import type { Session } from "./session.ts";
import { table, type Column } from "./table.ts";

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

export function serveHeld(app: FastifyInstance, ports: ConsolePorts): void {
  const { stores } = ports;
  app.get(PATH, async (request, reply) => {
    const number = pageNumberOf(request);
    const { total, rows, newest } = await readPage(stores, number);
    const main = live(
      "held",
      total === 0
        ? html`<p class="good">No change is held.</p>`
        : html`${explanation(ports, total)}${allActs(sessionOf(request), total, newest)}
          ${heldTable(rows, sessionOf(request))}${pager(PATH, {}, number, Math.ceil(total / ROWS))}`,
    );
    return sendPage(request, reply, ports, { title: "Held changes", tab: "held", main });
  });
  app.get(CONFIRM, { onRequest: requireOperator }, async (request, reply) => {
    const choice = choiceOf(request);
    const found = await find(stores, choice);
    const main = confirmation(sessionOf(request), choice, found);
    return sendPage(request, reply, ports, {
      title: titleOf(choice, found.length),
      tab: "held",
      main,
    });
  });
  app.post(PATH, { onRequest: requireOperator }, async (request, reply) => {
    await stores.stateVersion.require();
    const choice = choiceOf(request);
    const found = await find(stores, choice);
    const decide = choice.act === "release" ? releaseHeld : dropHeld;
    const done = await decide(stores, actorOf(request), found);
    const did = choice.act === "release" ? "released" : "dropped";
    const left =
      done < found.length
        ? `; ${found.length - done} had been decided meanwhile, or replaced by a newer event`
        : "";
    return sendBack(request, reply, PATH, `${countOf(done)} ${did}${left}.`);
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

const explanation = ({ stores }: ConsolePorts, total: number): Html =>
  html`<p>
    ${countOf(total)}: terminations beyond TERMINATE_LIMIT
    (${limitNow(stores.terminationGuard.limit)}) or of a record that did not write the relation, and
    updates that empty a field of many relations (EMPTY_LIMIT). A broken export, a wrong mapping, a
    deleted duplicate or a right that the CRM's user has lost does that too. Release them if the CRM
    is right; drop them if it is not.
  </p>`;

function allActs({ person }: Session, total: number, newest: number): Html | string {
  if (!may(person, "act")) return "";
  const count = Math.min(total, MOST);
  const which = total > MOST ? `the oldest ${count}` : `all ${count}`;
  return html`<p class="acts">
    ${(Object.keys(ACTS) as ActName[]).map(
      (act) =>
        html`<a id="${act}-all" class="button" href="${pathTo(CONFIRM, { act, at: newest })}"
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
      { heading: "crmCode", cell: ({ crmCode }) => html`<code>${crmCode}</code>` },
      {
        heading: "Record",
        cell(one) {
          const { type, subject } = originOf(one);
          return html`${type} ${subject}`;
        },
      },
      { heading: "Held since", cell: ({ heldAt }) => moment(heldAt) },
      { heading: "Why", cell: ({ fields, why }) => heldBecause(why, fields) },
      { heading: "Happened", cell: ({ time }) => moment(time) },
      { heading: "Source", cell: (one) => originOf(one).source },
      ...(may(person, "act") ? [DECIDE] : []),
    ],
  });

const DECIDE: Column<HeldTermination> = {
  heading: "Decide",
  hasActs: true,
  cell: (one) => html`${linkTo("release", one)} ${linkTo("drop", one)}`,
};

function linkTo(act: ActName, { crmCode, heldAt }: HeldTermination): Html {
  const { verb } = ACTS[act];
  const path = pathTo(CONFIRM, { act, code: crmCode, at: heldAt });
  return html`<a href="${path}" aria-label="${verb} ${crmCode}…">${verb}…</a>`;
}

function confirmation(session: Session, choice: Choice, found: readonly HeldTermination[]): Html {
  const { act, code, at } = choice;
  const { verb, does } = ACTS[act];
  const path = pathTo(PATH, { act, ...(code === undefined ? {} : { code }), at });
  const shown = found.slice(0, ROWS);
  const button = html`<button class="main">${verb} ${countOf(found.length)}</button>
    <a href="${PATH}">Cancel</a>`;
  return html`<p>${does}</p>
    ${postForm(session, path, button)}
    <ul class="names">
      ${shown.map((one) => html`<li><code>${one.crmCode}</code> ${originOf(one).subject}</li>`)}
    </ul>
    ${found.length > shown.length && html`<p>and ${found.length - shown.length} more</p>`}`;
}

const titleOf = ({ act }: Choice, count: number): string => `${ACTS[act].verb} ${countOf(count)}?`;

const countOf = (count: number): string => counted(count, "held change");
