/** The tab Dead letters: by fault, to show, to try again and to drop. */
import type { FastifyRequest } from "fastify";
import { itemOf } from "../approvals/carry-out.ts";
import { needsApproval } from "../approvals/decide.ts";
import { dropLetters, redriveLetters, type RecordAct } from "../dead-letters/act.ts";
import { forecastOf, openRedriveView, type Forecast } from "../dead-letters/forecast.ts";
import { GROUP_ID } from "../dead-letters/group-of.ts";
import { previewRedrive, type RedrivePreview } from "../dead-letters/preview-redrive.ts";
import { fits } from "../dead-letters/select.ts";
import { faultOf, forecastText, laterText, remedyOf, previewRows } from "../dead-letters/words.ts";
import { UserError } from "../../base/user-error.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { askedView, askInstead, confirmForm } from "./approvals.ts";
import { html, pathTo, type Html, facts, ago, moment, table, type Column } from "./html.ts";
import { DeadIndex, MOST_LISTED, type CountedLetters, type Look } from "./dead-index.ts";
import {
  crmLink,
  hiddenPicks,
  live,
  pickColumn,
  pickForm,
  picksIn,
  tabPath,
  type Page,
  postForm,
  recordLink,
  isAfterAct,
  pageNumberOf,
  queryOf,
  ROWS,
  type Pages,
  pager,
} from "./pages.ts";
import { tryForm } from "./try.ts";
import { inOurWords, reasonText } from "./words.ts";
import type { DeadGroup } from "../dead-letters/group.ts";
import { eventOf, subjectOf } from "../dead-letters/stored-event.ts";
import { counted } from "../../base/counted.ts";
import { may } from "../../base/person.ts";
import { duration } from "../../operate/status/clock-time.ts";
import { lines } from "./remedies.ts";

const PATH = tabPath("dead");
const CONFIRM = `${PATH}/confirm`;

const PICK_ACTS = { redrive: "Try selected again…", drop: "Drop selected…" } as const;

/** With checkboxes, for who may act. */
const pickable = (session: Session, content: (may: boolean) => Html): Html =>
  may(session.person, "act")
    ? pickForm(session, CONFIRM, PICK_ACTS, content(true))
    : content(false);

/** Dead letters that are previewed: the first of those that are decided. */
const MOST_PREVIEWED = 300;

export function serveDead(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  const index = new DeadIndex(stores.deadLetters);
  pages.show(PATH, async (request) => {
    const look = await index.look(isAfterAct(request));
    const asked = await askedView(ports, "drop");
    const main = live("dead", html`${asked}${groupsView(sessionOf(request), look)}`);
    const heading = headingOf(look);
    return { title: "Dead letters", heading, tab: "dead", main };
  });
  pages.show(`${PATH}/group`, async (request) => {
    const id = groupIdOf(queryOf(request)["group"]);
    const look = await index.look();
    const { counted } = look;
    if (counted === undefined) return countingPage(look);
    const number = pageNumberOf(request);
    const members = counted.members.get(id) ?? [];
    const ids = members.slice((number - 1) * ROWS, number * ROWS).map((member) => member.id);
    const total = sizeOf(counted, id);
    const letters = await Array.fromAsync(stores.deadLetters.read(ids));
    const group = counted.groups.groups.find((one) => one.id === id);
    const main = listView(request, ports, letters, {
      id,
      number,
      total,
      listed: members.length,
      group,
      at: counted.at,
    });
    const title =
      group === undefined ? countOf(total) : `${countOf(total)}: ${inOurWords(faultOf(group))}`;
    return { title, tab: "dead", main };
  });
  serveLetter(pages, ports);
  serveActs(pages, ports, index);
}

const countingPage = (look: Look): Page => ({
  title: "Dead letters",
  tab: "dead",
  main: live("dead", countingView(look)),
});

function serveLetter(pages: Pages, ports: ConsolePorts): void {
  const { mapping, stores } = ports;
  pages.show(`${PATH}/letter`, async (request) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const left = await stores.deadLetterExpiry.left([letter.id]);
    const forecast = await forecastOf(letter, await openRedriveView(stores, mapping));
    const main = letterView(request, ports, letter, forecast, left.get(letter.id));
    return { title: "Dead letter", tab: "dead", main };
  });
  // The event holds personal data: who reads it is recorded.
  pages.act(`${PATH}/event`, async (request) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const { crmCode, id } = letter;
    const by = actorOf(request);
    await stores.auditActs.record({ act: "dead.show", by, crmCode, details: { letter: id } });
    const main = eventView(letter);
    return { title: "Event of a dead letter", tab: "dead", main };
  });
}

function serveActs(pages: Pages, ports: ConsolePorts, index: DeadIndex): void {
  const { mapping, stores } = ports;
  const confirm = async (request: FastifyRequest): Promise<Page> => {
    const choice = choiceOf(request);
    const look = needsCount(choice) ? await index.look() : undefined;
    if (look !== undefined && look.counted === undefined) {
      return countingPage(look);
    }
    const { ids, total } = await chosen(stores, choice, look?.counted);
    const previewed = choice.act === "redrive" ? ids.slice(0, MOST_PREVIEWED) : [];
    const preview =
      previewed.length === 0
        ? undefined
        : await previewRedrive(
            stillChosen(stores, choice, previewed),
            await openRedriveView(stores, mapping),
          );
    const about = await aboutOf(stores, choice, look?.counted);
    const isAsked = choice.act === "drop" && (await needsApproval(stores, "drop"));
    const shown = { about, count: ids.length, total, preview, isAsked };
    const main = confirmView(request, choice.act, shown);
    const title = `${DEAD_ACTS[choice.act].name(countOf(ids.length))}?`;
    return { title, tab: "dead", main };
  };
  pages.confirm(CONFIRM, confirm);
  pages.act(CONFIRM, confirm);
  pages.act(PATH, async (request) => {
    await stores.stateVersion.require();
    const choice = choiceOf(request);
    const { ids } = await chosen(
      stores,
      choice,
      needsCount(choice) ? await index.wait() : undefined,
    );
    if (choice.act === "drop" && (await needsApproval(stores, "drop"))) {
      const items = await Array.fromAsync(stillChosen(stores, choice, ids), itemOf);
      return askInstead(request, ports, { act: "drop" }, items);
    }
    const by = actorOf(request);
    const record: RecordAct = (act, about) => stores.auditActs.record({ act, by, ...about });
    const decide = choice.act === "redrive" ? redriveLetters : dropLetters;
    const { dropped, left, redriven } = await decide(
      stores,
      stillChosen(stores, choice, ids),
      record,
    );
    index.outdate();
    const says =
      choice.act === "drop"
        ? `${countOf(dropped)} dropped.`
        : `${countOf(redriven)} accepted again: each disappears here once its record passes.`;
    const rest = left === 0 ? "" : ` ${left} left: they contain no event that could be sent.`;
    return { path: PATH, says: `${says}${rest}` };
  });
}

/** @throws UserError */
function choiceOf(request: FastifyRequest): DeadChoice {
  const { act = formOf(request).get("act"), at, group, id } = queryOf(request);
  const given = at === undefined ? picksIn(request) : [{ at, group, id }];
  const targets = given.map(targetIn);
  if ((act !== "redrive" && act !== "drop") || targets.length === 0) throw new UserError(NOTHING);
  return { act, targets };
}

const NOTHING = "no dead letter is selected: choose on the page Dead letters";

function targetIn({ at = "", group, id }: Readonly<Record<string, string | undefined>>): Target {
  if (!/^\d{1,16}$/.test(at) || (group === undefined) === (id === undefined)) {
    throw new UserError(NOTHING);
  }
  return { ...(id === undefined ? { group: groupIdOf(group) } : { id }), at: Number(at) };
}

/** Where groups are chosen, their letters must be counted. */
const needsCount = ({ targets }: DeadChoice): boolean => targets.some(({ id }) => id === undefined);

/** What a person is about to decide. */
async function aboutOf(
  { deadLetters }: Stores,
  { targets }: DeadChoice,
  counted: CountedLetters | undefined,
): Promise<string[]> {
  const all = await Promise.all(
    targets.map(async ({ group, id }) => {
      if (id === undefined) {
        const found = counted?.groups.groups.find((one) => one.id === group);
        return found === undefined ? [] : [`Fault: ${inOurWords(faultOf(found))}`];
      }
      const letter = await deadLetters.find(id);
      return letter === undefined ? [] : [nameOf(letter)];
    }),
  );
  return all.flat();
}

/** What was there when the page was made, and is there still. @throws UserError when nothing is. */
async function chosen(
  { deadLetters }: Stores,
  { targets }: DeadChoice,
  counted: CountedLetters | undefined,
): Promise<{ ids: readonly string[]; total: number }> {
  const found = await Promise.all(
    targets.map(async ({ at, group = "", id: one }) => {
      const members = one === undefined ? counted?.members.get(group) : undefined;
      const letters = members ?? [one === undefined ? undefined : await deadLetters.find(one)];
      return letters.flatMap((letter) =>
        letter === undefined || letter.at > at ? [] : [letter.id],
      );
    }),
  );
  const ids = [...new Set(found.flat())];
  if (ids.length === 0) {
    throw new UserError(
      "these dead letters are gone: they were decided, their records passed, or newer events have replaced them; look again",
    );
  }
  const [only, ...others] = targets;
  const isPart = counted !== undefined && ids.length === MOST_LISTED && others.length === 0;
  const total = isPart ? sizeOf(counted, only?.group ?? "") : ids.length;
  return { ids: ids.slice(0, MOST_LISTED), total };
}

/** The smallest groups are not among the groups that are shown. */
const sizeOf = ({ groups, members }: CountedLetters, group: string): number =>
  groups.groups.find(({ id }) => id === group)?.letters ?? members.get(group)?.length ?? 0;

/** The letters that are as they were counted: others may have been replaced meanwhile. */
async function* stillChosen(
  { deadLetters }: Stores,
  { targets }: DeadChoice,
  ids: readonly string[],
): AsyncGenerator<StoredDeadLetter> {
  for await (const letter of deadLetters.read(ids)) {
    const isChosen = targets.some(({ at, group, id }) =>
      id === undefined
        ? fits(letter, { until: at, ...(group !== undefined && { inGroup: group }) })
        : letter.id === id && letter.at <= at,
    );
    if (isChosen) yield letter;
  }
}

async function find({ deadLetters }: Stores, id: string | undefined): Promise<StoredDeadLetter> {
  const letter = await deadLetters.find(id ?? "");
  if (letter === undefined) {
    throw new UserError("this dead letter is gone: it was decided, or its record passed");
  }
  return letter;
}

function groupIdOf(text: string | undefined): string {
  if (text !== undefined && GROUP_ID.test(text)) return text;
  throw new UserError("this address names no group of dead letters");
}

const DEAD_ACTS = {
  redrive: {
    name: (what: string) => `Try ${what} again`,
    does: "Each event is accepted again, in its old place among the events of its record. A dead letter stays until its record passes.",
  },
  drop: {
    name: (what: string) => `Drop ${what}`,
    does: "Each is deleted for good: its change is never sent, unless the CRM sends the record again.",
  },
} as const;

type ActName = keyof typeof DEAD_ACTS;

/** One dead letter, or those of a group, as a person has seen them. */
interface Target {
  readonly id?: string | undefined;
  readonly group?: string | undefined;
  /** ms */
  readonly at: number;
}

interface DeadChoice {
  readonly act: ActName;
  readonly targets: readonly Target[];
}

const countOf = (count: number): string => counted(count, "dead letter");

const countingView = ({ seen }: Look): Html =>
  html`<p class="notice warning" role="status">
    Many dead letters: they are being counted by fault, ${seen} so far. Open the page again in some
    seconds.
  </p>`;

const headingOf = ({ counted: known }: Look): string => {
  if (known === undefined) return "Dead letters";
  const { groups, letters } = known.groups;
  return letters === 0
    ? "There is no dead letter"
    : `${countOf(letters)} in ${counted(groups.length, "group")}, one for each fault`;
};

function groupsView(session: Session, look: Look): Html {
  if (look.counted === undefined) return countingView(look);
  const { at, groups: all } = look.counted;
  const { groups, inSeveral, leftOut, letters } = all;
  if (letters === 0) {
    return html`<p class="dim">
      A change that is not valid, or that the service rejects, waits here until it is corrected.
    </p>`;
  }
  return html`<p class="dim">
      ${inSeveral > 0 && `${inSeveral} ${inSeveral === 1 ? "has several faults, and is" : "have several faults, and are"} in several groups. `}${
        leftOut > 0 &&
        `This list is partial: ${counted(leftOut, "more fault")} in smaller groups are not shown. `
      }${look.isCounting && html`As of ${moment(at)}; newer numbers are being counted.`}
    </p>
    ${pickable(session, (acts) =>
      table({
        caption: "The largest group first",
        rows: groups,
        columns: [
          ...(acts ? [pickColumn(({ id }: DeadGroup) => ({ group: id, at }), faultOf)] : []),
          ...GROUP_COLUMNS,
          ...(acts ? [decideColumn(at)] : []),
        ],
      }),
    )}`;
}

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  {
    heading: "Fault",
    cell: (group) =>
      html`<a href="${pathTo(`${PATH}/group`, { group: group.id })}"
          >${inOurWords(faultOf(group))}</a
        >
        <div class="dim">
          ${reasonText(group.reason)}${group.example.kind !== "" && `; in the newest it is ${inOurWords(group.example.kind)}`}
        </div>`,
  },
  { heading: "Letters", isNumber: true, cell: ({ letters }) => letters },
  {
    heading: "From",
    cell: ({ firstAt, lastAt, sources }) =>
      html`${sources.join(", ")}
        <div class="dim">
          ${lastAt - firstAt < 60_000 ? ago(lastAt) : html`first ${ago(firstAt)}, last ${ago(lastAt)}`}
        </div>`,
  },
  { heading: "What to do", cell: (group) => inOurWords(remedyOf(group)) },
];

/** @param countedAt ms: letters that came later are not shown, and so not decided by this link. */
function groupLink(
  act: ActName,
  { id, letters, ...group }: DeadGroup,
  countedAt: number,
  style = "",
): Html {
  const { name } = DEAD_ACTS[act];
  const label = `${name(String(letters))} with the fault ${faultOf(group)}…`;
  const path = pathTo(CONFIRM, { act, group: id, at: countedAt });
  // The script finds the link again by its id: its address changes with each count.
  return html`<a id="${act}-${id}" class="${style} ${act}" href="${path}" aria-label="${label}"
    >${name(String(letters))}…</a
  >`;
}

function decideColumn(countedAt: number): Column<DeadGroup> {
  const link = (act: ActName, group: DeadGroup) => groupLink(act, group, countedAt);
  return {
    heading: "Decide",
    hasActs: true,
    cell: (group) => html`${link("redrive", group)} ${link("drop", group)}`,
  };
}

interface ListPage {
  readonly id: string;
  readonly number: number;
  readonly total: number;
  /** Of these, so many can be opened. */
  readonly listed: number;
  /** The fault; the smallest groups are not known. */
  readonly group: DeadGroup | undefined;
  /** When they were counted, ms. */
  readonly at: number;
}

function listView(
  request: FastifyRequest,
  ports: ConsolePorts,
  letters: readonly StoredDeadLetter[],
  page: ListPage,
): Html {
  const session = sessionOf(request);
  const { at, group, id, listed, number, total } = page;
  if (total === 0)
    return html`<p>This group has no dead letters any more.</p>
      ${back}`;
  const isAll = group !== undefined && may(session.person, "act");
  return html`${back}
  ${isAll && html`<p class="acts">${groupLink("redrive", group, at, "button")} ${groupLink("drop", group, at, "button")}</p>`}
  ${pickable(session, (acts) =>
    table({
      caption: `In the order of their last failure${listed < total ? `: the first ${listed} of ${total}` : ""}`,
      rows: letters,
      columns: [
        ...(acts ? [PICK] : []),
        {
          heading: "Record",
          cell: (letter) =>
            html`<a href="${pathTo(`${PATH}/letter`, { id: letter.id })}">${nameOf(letter)}</a
              >${crmLink(ports, subjectOf(letter))}`,
        },
        { heading: "Faults", cell: faultsOf },
        {
          heading: "Since",
          cell: ({ firstAt, times }) => html`${ago(firstAt)}${times > 1 && `, ${times} times`}`,
        },
        { heading: "Source", cell: ({ source }) => source },
      ],
    }),
  )}
  ${pager(`${PATH}/group`, { group: id }, number, Math.ceil(listed / ROWS))}`;
}

const PICK = pickColumn(
  ({ at, id }: StoredDeadLetter) => ({ id, at }),
  (letter) => nameOf(letter),
);

const back = html`<p><a href="${PATH}">All dead letters</a></p>`;

const nameOf = (letter: StoredDeadLetter): string =>
  [subjectOf(letter) ?? "no subject", letter.crmCode && `(crmCode ${letter.crmCode})`]
    .filter(Boolean)
    .join(" ");

const faultsOf = ({ problems, reason }: StoredDeadLetter): string =>
  problems.length === 0 ? reasonText(reason) : problems.map(faultOf).join("; ");

function letterView(
  request: FastifyRequest,
  ports: ConsolePorts,
  letter: StoredDeadLetter,
  forecast: Forecast,
  leftMs: number | undefined,
): Html {
  const { at, crmCode, firstAt, id, problems, reason, source, times } = letter;
  const session = sessionOf(request);
  const later = laterText(letter);
  const name = crmCode ?? subjectOf(letter);
  const fails = forecast.kind === "fails";
  const confirm = (act: ActName, style: string, text: string) =>
    html`<a class="button ${style}" href="${pathTo(CONFIRM, { act, id, at })}">${text}</a>`;
  return html`${back}
    <p class="notice ${fails ? "bad" : "warning"}">
      <span class="says"
        >${inOurWords(remedyOf(letter))} Now it <strong>${forecastText(forecast)}</strong>.</span
      >
    </p>
    ${
      may(session.person, "act") &&
      html`<p class="acts">
        ${confirm("redrive", fails ? "" : "main", "Try again…")} ${confirm("drop", "drop", "Drop…")}
      </p>`
    }
    ${facts({
      Record:
        name === undefined
          ? "not named by the event"
          : html`${recordLink(name, nameOf(letter))}${crmLink(ports, subjectOf(letter))}`,
      Reason: reasonText(reason),
      Source: source ?? "not known",
      Stored: html`${ago(at)}${times > 1 && html`, ${times} times; first ${ago(firstAt)}`}`,
      Deleted: leftMs === undefined ? "never" : `in ${duration(leftMs)}, unless a person decides`,
      Later: later && inOurWords(later),
    })}
    ${
      problems.length > 0 &&
      table({
        caption: "What is wrong",
        rows: problems,
        columns: [
          {
            heading: "Field",
            cell: ({ field }) => html`<code>${field === "" ? "(the whole)" : field}</code>`,
          },
          { heading: "Rule", cell: ({ rule }) => rule },
          { heading: "Found", cell: ({ kind }) => inOurWords(kind) },
        ],
      })
    }
    ${may(session.person, "act") && tryForm(session, id)}
    ${
      may(session.person, "act") &&
      postForm(
        session,
        pathTo(`${PATH}/event`, { id }),
        html`<p class="acts">
          <button>Show the event</button>
          <span class="dim"
            >It contains personal data. Who opens it is recorded in the audit trail, if one is kept
            (AUDIT_LOG).</span
          >
        </p>`,
      )
    }`;
}

function eventView(letter: StoredDeadLetter): Html {
  const event = eventOf(letter);
  const text = typeof event === "string" ? event : JSON.stringify(event, undefined, 2);
  return html`<p>
      <a href="${pathTo(`${PATH}/letter`, { id: letter.id })}">Back to the dead letter</a>
    </p>
    <pre tabindex="0">${lines(text)}</pre>`;
}

interface Chosen {
  /** The records, or the faults. */
  readonly about: readonly string[];
  /** What a click decides, and how many fit. */
  readonly count: number;
  readonly total: number;
  readonly preview: RedrivePreview | undefined;
  /** Another person must approve it. */
  readonly isAsked: boolean;
}

function confirmView(request: FastifyRequest, act: ActName, chosen: Chosen): Html {
  const { about, count, isAsked, preview, total } = chosen;
  const { name, does } = DEAD_ACTS[act];
  const { at, group, id } = queryOf(request);
  const fails = preview !== undefined && 2 * preview.fails > preview.letters;
  const buttons = act === "drop" ? "drop" : fails ? "fails" : "main";
  return html`${about.slice(0, ROWS).map((one) => html`<p><strong>${one}</strong></p>`)}
    <p>${does}</p>
    ${total > count && html`<p>These are the first ${count} of ${total}; repeat it for the others.</p>`}
    ${
      fails &&
      html`<p class="notice warning">
        <span class="says"
          >${preview.fails} of ${preview.letters} would fail again: the records or the mapping are
          still as they were.</span
        >
      </p>`
    }
    ${preview !== undefined && previewView(preview, count)}
    ${confirmForm(sessionOf(request), pathTo(PATH, { act, id, group, at }), { does: name(countOf(count)), back: PATH, isAsked, buttons, hidden: hiddenPicks(request) })}`;
}

function previewView(preview: RedrivePreview, count: number): Html {
  const { letters } = preview;
  return table({
    caption: `What trying again would achieve now${letters < count ? `, of the first ${letters}` : ""}`,
    rows: previewRows(preview),
    columns: [
      { heading: "Letters", isNumber: true, cell: ([number]) => number },
      { heading: "Result", cell: ([, text]) => text },
    ],
  });
}
