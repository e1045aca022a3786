/** The page Approvals: acts of one person that wait for another one; and what other pages need to ask. */
import { crmsync } from "../../base/command.ts";
import type { FastifyRequest } from "fastify";
import { carryOut } from "../approvals/carry-out.ts";
import {
  approve,
  ask,
  findApproval,
  isOwn,
  readApprovals,
  reject,
  whyNotOther,
  type Actor,
} from "../approvals/decide.ts";
import { counted } from "../../base/counted.ts";
import { UserError } from "../../base/user-error.ts";
import { may, marksOf, marksOfPerson } from "../../base/person.ts";
import { isEnded, type Approval, type Asked, type AskedItem } from "../../core/state/approvals.ts";
import {
  aboutText,
  askedText,
  besideText,
  countsText,
  endText,
  goneText,
  planText,
} from "../../operate/status/approval-text.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { facts, html, pathTo, type Html, ago, moment, table } from "./html.ts";
import { inOurWords, told } from "./words.ts";
import {
  live,
  postForm,
  recordCell,
  tabPath,
  pageNumberOf,
  pager,
  queryOf,
  ROWS,
  soon,
  type Done,
  type Pages,
} from "./pages.ts";

const PATH = tabPath("approvals");
const ONE = `${PATH}/one`;

export function serveApprovals(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  const find = (request: FastifyRequest) => findApproval(stores, queryOf(request)["id"] ?? "");
  pages.show(PATH, async () => {
    const all = await readApprovals(stores);
    const count = all.filter(({ state }) => state === "open").length;
    const heading =
      count === 0
        ? "No act waits for approval"
        : `${counted(count, "act waits", "acts wait")} for approval`;
    const main = live("approvals", listView(all));
    return { title: "Approvals", heading, tab: "approvals", main };
  });
  pages.show(ONE, async (request) => {
    const one = await find(request);
    const items = await stores.approvals.items(one.id);
    const number = pageNumberOf(request);
    const main = html`${aboutView(one)}${decideView(sessionOf(request), personIn(request, ports), one)}
      ${itemsView(ports, one, items, number)}
      <p><a href="${PATH}">All approvals</a></p>`;
    return { title: `Approval ${one.id}`, tab: "approvals", main };
  });
  pages.decide(`${PATH}/approve`, async (request) => {
    const approved = await approve(stores, await find(request), personIn(request, ports));
    return carryOutNow(ports, approved);
  });
  pages.decide(`${PATH}/again`, async (request) => {
    const one = await find(request);
    if (one.state !== "approved") throw new UserError(`approval ${one.id} ${endText(one)}`);
    return carryOutNow(ports, one);
  });
  pages.decide(`${PATH}/reject`, async (request) => {
    const reason = formOf(request).get("reason") ?? "";
    const one = await reject(stores, await find(request), personIn(request, ports), reason);
    return { path: PATH, says: `Approval ${one.id} ${endText(one)}.` };
  });
}

export function personIn(request: FastifyRequest, { tokens }: ConsolePorts): Actor {
  const { person } = sessionOf(request);
  return { by: actorOf(request), person, marks: marksOfPerson(person, marksOf(tokens)) };
}

async function carryOutNow(ports: ConsolePorts, one: Approval): Promise<Done> {
  const { mapping, stores } = ports;
  if (one.plan !== undefined) {
    const { file, host, isByDaemon } = one.plan;
    const how = isByDaemon
      ? `The daemon on ${host} carries the plan out.`
      : `On ${host}, ${one.asker.by} runs ${crmsync`reconcile --apply ${file}`} again.`;
    return { path: PATH, says: `Approved. ${how}` };
  }
  if (one.state === "done") return { path: PATH, says: `Approval ${one.id} ${endText(one)}.` };
  const doing = carryOut({ stores, mapping: async () => mapping }, one);
  doing.catch((error: unknown) => error instanceof UserError || ports.defect(error));
  const after = await soon(doing);
  const says = after === undefined ? "is being carried out: see below" : endText(after);
  return { path: PATH, says: `Approval ${one.id} ${says}.` };
}

/** After a form of another page: asks, in place of the act. */
export async function askInstead(
  request: FastifyRequest,
  ports: ConsolePorts,
  asked: Asked,
  items: readonly AskedItem[],
): Promise<Done> {
  const reason = formOf(request).get("reason") ?? "";
  const one = await ask(ports.stores, personIn(request, ports), { ...asked, reason }, items);
  const isFirst = one.asker.by === actorOf(request);
  const asker = isFirst ? "Asked" : `${one.asker.by} has asked for the same`;
  const says = `${asker}: approval ${one.id}, to ${askedText(one)}. Nothing is done until another person approves it, on this page.`;
  return { path: ONE, says, query: { id: one.id } };
}

/** What somebody has asked for already, for the page on which it would be asked for. */
export async function askedView({ stores }: ConsolePorts, act: Asked["act"]): Promise<Html[]> {
  const open = (await readApprovals(stores)).filter((one) => one.act === act && !isEnded(one));
  return open.map(
    (one) =>
      html`<p class="notice warning">
        <a href="${pathTo(ONE, { id: one.id })}">Approval ${one.id}</a>: ${one.asker.by} has asked
        to ${askedText(one)}.
      </p>`,
  );
}

/** The buttons of a confirmation: what is better stands first. */
const BUTTONS = {
  main: (does: string, back: string) =>
    html`<button class="main">${does}</button> <a href="${back}">Cancel</a>`,
  drop: (does: string, back: string) =>
    html`<a class="button" href="${back}">Keep them</a> <button class="drop">${does}</button>`,
  fails: (does: string, back: string) =>
    html`<a class="button main" href="${back}">Correct them first</a> <button>${does}</button>`,
};

interface Confirmation {
  readonly does: string;
  readonly back: string;
  /** Another person must approve it. */
  readonly isAsked?: boolean;
  readonly buttons?: keyof typeof BUTTONS;
  /** Fields that come back with it. */
  readonly hidden?: readonly Html[];
}

/** @param path where the act is done, or asked for. */
export const confirmForm = (session: Session, path: string, about: Confirmation): Html => {
  const { back, buttons = "main", does, hidden = [], isAsked = false } = about;
  return postForm(
    session,
    path,
    isAsked
      ? html`${hidden}
          <p>Another person must approve this: it is asked for, and nothing is done yet.</p>
          ${reasonField}
          <p class="acts">${BUTTONS.main(`Ask for approval: ${does}`, back)}</p>`
      : html`${hidden}
          <p class="acts">${BUTTONS[buttons](does, back)}</p>`,
  );
};

const reasonField = html`<p class="reason">
  <label for="reason">Reason, for your colleagues and the audit trail (no personal data)</label>
  <input id="reason" name="reason" maxlength="200" />
</p>`;

function listView(all: readonly Approval[]): Html {
  const waiting = all.filter((one) => !isEnded(one));
  const ended = all.filter(isEnded).sort((a, b) => b.at - a.at);
  const columns = [
    {
      heading: "Act",
      cell: (one: Approval) =>
        html`<a href="${pathTo(ONE, { id: one.id })}">${one.id}: ${askedText(one)}</a> <br /><span
            class="dim"
            >${told(aboutText(one))}</span
          >`,
    },
    { heading: "Asked by", cell: ({ asker }: Approval) => asker.by },
    { heading: "Asked", cell: ({ askedAt }: Approval) => moment(askedAt) },
  ];
  return html`${
    waiting.length === 0
      ? html`<p class="dim">
          Acts that need a second person (APPROVALS) wait here until another one decides, for a day.
        </p>`
      : table({
          caption: "Acts that wait, the newest first",
          rows: waiting,
          columns: [
            ...columns,
            { heading: "Expires", cell: ({ expiresAt }) => ago(expiresAt) },
            { heading: "State", cell: stateText },
          ],
        })
  }${
    ended.length > 0 &&
    table({
      caption: "The last ones that have ended",
      rows: ended,
      columns: [...columns, { heading: "What became of it", cell: endText }],
    })
  }`;
}

const stateText = (one: Approval): string =>
  one.state === "open" ? "waits for another person" : endText(one);

function aboutView(one: Approval): Html {
  const { asker, askedAt, expiresAt, gone, mapping, names = [], plan, reason } = one;
  return html`${facts({
    Act: askedText(one),
    Asked: html`by ${asker.by}, ${moment(askedAt)}`,
    Reason: reason,
    "Not any more": gone !== undefined && goneText(gone),
    "Names that were given": names.join(", "),
    Plan: plan && planView(plan),
    "SHA-256 of the file": mapping?.hash.replace("sha256:", ""),
    Comparison: mapping && besideText(mapping),
    "Warned of, and accepted": plan?.accept.join(", "),
    State: `It ${stateText(one)}.`,
    Expires: !isEnded(one) && moment(expiresAt),
  })}
  ${
    one.about.length > 0 &&
    table({
      caption: "What it does",
      rows: one.about,
      columns: [
        { heading: "Kind", cell: ({ count, kind }) => counted(count, kind) },
        { heading: "Why a person decides", cell: ({ why = "" }) => inOurWords(why) },
        { heading: "Fields", cell: ({ fields }) => countsText(fields) },
        { heading: "From", cell: ({ sources }) => countsText(sources) },
        { heading: "Since", cell: ({ since }) => (since === undefined ? "" : moment(since)) },
      ],
    })
  }`;
}

function planView(plan: NonNullable<Approval["plan"]>): Html {
  const { file, hash, host, id } = plan;
  return html`<a href="${pathTo(`${tabPath("bulk")}/plan`, { id, hash })}">Its differences</a>:
    ${planText(plan)}; ${file} on ${host}`;
}

function decideView(session: Session, actor: Actor, one: Approval): Html | string {
  const { person } = session;
  if (isEnded(one) || !(may(person, "act") || may(person, "approve"))) return "";
  const path = (act: string) => pathTo(`${PATH}/${act}`, { id: one.id });
  if (one.state === "approved") {
    if (one.plan !== undefined) return "";
    const again = html`<button>Carry it out again</button>
      <span class="dim">What was done before is not done twice.</span>`;
    return postForm(session, path("again"), again);
  }
  const whyNot = whyNotOther(one.asker, actor);
  const approving =
    whyNot === undefined
      ? postForm(
          session,
          path("approve"),
          html`<button class="main">Approve: ${askedText(one)}</button>`,
        )
      : html`<p class="notice warning">You cannot approve it: ${whyNot}.</p>`;
  const isOwnAsk = isOwn(one, actor);
  if (!isOwnAsk && !may(person, "approve")) return approving;
  const verb = isOwnAsk ? "Withdraw" : "Reject";
  return html`${approving}${postForm(session, path("reject"), html`${reasonField}<button>${verb}</button>`)}`;
}

function itemsView(
  ports: ConsolePorts,
  one: Approval,
  items: readonly AskedItem[],
  number: number,
): Html | string {
  if (items.length === 0) return "";
  return html`<h2>What it is about</h2>
    ${table({
      caption: "As it was when it was asked: what changes until it is done is left alone",
      rows: items.slice((number - 1) * ROWS, number * ROWS),
      columns: [
        {
          heading: one.act === "drop" ? "Dead letter" : "crmCode",
          cell: ([name]) =>
            one.act === "drop"
              ? html`<a href="${pathTo(`${tabPath("dead")}/letter`, { id: name })}">${name}</a>`
              : recordCell(ports, name),
        },
      ],
    })}${pager(ONE, { id: one.id }, number, Math.ceil(items.length / ROWS))}`;
}
