/** The pages of the tab Dead letters. */
import type { Forecast, UnknownWhy } from "../dead-letters/forecast.ts";
import type { DeadGroup } from "../dead-letters/group.ts";
import type { RedrivePreview } from "../dead-letters/preview-redrive.ts";
import { eventOf, subjectOf } from "../dead-letters/stored-event.ts";
import { faultOf, forecastText, laterText, remedyOf, WHY_UNKNOWN } from "../dead-letters/words.ts";
import { counted } from "../ops/counted.ts";
import { may } from "../people/person.ts";
import type { StoredDeadLetter } from "../state/dead-letters.ts";
import { duration } from "../status/duration.ts";
import { confirmForm } from "./approvals.ts";
import type { Look } from "./dead-index.ts";
import { facts } from "./facts.ts";
import { html, pathTo, type Html } from "./html.ts";
import { postForm, recordLink, tabPath } from "./layout.ts";
import { ago, moment } from "./moment.ts";
import { lines } from "./remedies.ts";
import { pager, ROWS } from "./pages.ts";
import type { Session } from "./session.ts";
import { table, type Column } from "./table.ts";
import { inOurWords } from "./words.ts";

const PATH = tabPath("dead");

export const DEAD_ACTS = {
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

/** What a person has seen when deciding: one dead letter, or those of a group, as they were then. */
export interface DeadChoice {
  readonly act: ActName;
  readonly id?: string | undefined;
  readonly group?: string | undefined;
  /** ms */
  readonly at: number;
}

export const countOf = (count: number): string => counted(count, "dead letter");

export const countingView = ({ seen }: Look): Html =>
  html`<p class="notice warning" role="status">
    Many dead letters: they are being counted by fault, ${seen} so far. Open the page again in some
    seconds.
  </p>`;

export const headingOf = ({ counted: known }: Look): string => {
  if (known === undefined) return "Dead letters";
  const { groups, letters } = known.groups;
  return letters === 0
    ? "There is no dead letter"
    : `${countOf(letters)} in ${counted(groups.length, "group")}, one for each fault`;
};

export function groupsView(session: Session, look: Look): Html {
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
    ${table({
      caption: "The largest group first",
      rows: groups,
      columns: [...GROUP_COLUMNS, ...(may(session.person, "act") ? [decideColumn(at)] : [])],
    })}`;
}

const GROUP_COLUMNS: readonly Column<DeadGroup>[] = [
  {
    heading: "Fault",
    cell: (group) =>
      html`<a href="${pathTo(`${PATH}/group`, { group: group.id })}"
          >${inOurWords(faultOf(group))}</a
        >
        <div class="dim">
          ${group.reason.replaceAll("_", " ")}${group.example.kind !== "" && `; in the newest it is ${group.example.kind}`}
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

/** @param countedAt ms: letters that came later are not shown, and so not decided by these links. */
function decideColumn(countedAt: number): Column<DeadGroup> {
  const link = (act: ActName, group: DeadGroup) => {
    const { id, letters } = group;
    const { name } = DEAD_ACTS[act];
    const label = `${name(String(letters))} with the fault ${faultOf(group)}…`;
    const path = pathTo(`${PATH}/confirm`, { act, group: id, at: countedAt });
    // The script finds the link again by its id: its address changes with each count.
    return html`<a id="${act}-${id}" class="${act}" href="${path}" aria-label="${label}"
      >${name(String(letters))}…</a
    >`;
  };
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
}

export function listView(letters: readonly StoredDeadLetter[], page: ListPage): Html {
  const { id, listed, number, total } = page;
  if (total === 0)
    return html`<p>This group has no dead letters any more.</p>
      ${back}`;
  return html`${back}
  ${table({
    caption: `In the order of their last failure${listed < total ? `: the first ${listed} of ${total}` : ""}`,
    rows: letters,
    columns: [
      {
        heading: "Record",
        cell: (letter) =>
          html`<a href="${pathTo(`${PATH}/letter`, { id: letter.id })}">${nameOf(letter)}</a>`,
      },
      { heading: "Faults", cell: faultsOf },
      {
        heading: "Since",
        cell: ({ firstAt, times }) => html`${ago(firstAt)}${times > 1 && `, ${times} times`}`,
      },
      { heading: "Source", cell: ({ source }) => source },
    ],
  })}
  ${pager(`${PATH}/group`, { group: id }, number, Math.ceil(listed / ROWS))}`;
}

const back = html`<p><a href="${PATH}">All dead letters</a></p>`;

export const nameOf = (letter: StoredDeadLetter): string =>
  [subjectOf(letter) ?? "no subject", letter.crmCode && `(crmCode ${letter.crmCode})`]
    .filter(Boolean)
    .join(" ");

const faultsOf = ({ problems, reason }: StoredDeadLetter): string =>
  problems.length === 0 ? reason : problems.map(faultOf).join("; ");

export function letterView(
  session: Session,
  letter: StoredDeadLetter,
  forecast: Forecast,
  leftMs: number | undefined,
): Html {
  const { at, crmCode, firstAt, id, problems, reason, source, times } = letter;
  const later = laterText(letter);
  const name = crmCode ?? subjectOf(letter);
  const fails = forecast.kind === "fails";
  const confirm = (act: ActName, style: string, text: string) =>
    html`<a class="button ${style}" href="${pathTo(`${PATH}/confirm`, { act, id, at })}"
      >${text}</a
    >`;
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
      Record: name === undefined ? "not named by the event" : recordLink(name, nameOf(letter)),
      Reason: reason.replaceAll("_", " "),
      Source: source ?? "not known",
      Stored: html`${ago(at)}${times > 1 && html`, for the ${times}th time; first ${ago(firstAt)}`}`,
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
          { heading: "Found", cell: ({ kind }) => kind },
        ],
      })
    }
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

export function eventView(letter: StoredDeadLetter): Html {
  const event = eventOf(letter);
  const text = typeof event === "string" ? event : JSON.stringify(event, undefined, 2);
  return html`<p>
      <a href="${pathTo(`${PATH}/letter`, { id: letter.id })}">Back to the dead letter</a>
    </p>
    <pre tabindex="0">${lines(text)}</pre>`;
}

interface Chosen {
  /** The record, or the fault. */
  readonly about: string;
  /** What a click decides, and how many fit. */
  readonly count: number;
  readonly total: number;
  readonly preview: RedrivePreview | undefined;
  /** Another person must approve it. */
  readonly isAsked: boolean;
}

export function confirmView(session: Session, choice: DeadChoice, chosen: Chosen): Html {
  const { act, at, group, id } = choice;
  const { about, count, isAsked, preview, total } = chosen;
  const { name, does } = DEAD_ACTS[act];
  const fails = preview !== undefined && 2 * preview.fails > preview.letters;
  const buttons = act === "drop" ? "drop" : fails ? "fails" : "main";
  return html`${about !== "" && html`<p><strong>${about}</strong></p>`}
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
    ${confirmForm(session, pathTo(PATH, { act, id, group, at }), { does: name(countOf(count)), back: PATH, isAsked, buttons })}`;
}

function previewView(preview: RedrivePreview, count: number): Html {
  const { failing, fails, letters, sent, settled, unknown } = preview;
  const results: readonly (readonly [number, string])[] = [
    [sent, "would be sent"],
    [
      settled,
      "would end without a request: unchanged, ignored by the mapping, or replaced by a newer event",
    ],
    [fails, "would fail again"],
    ...failing
      .slice(0, 20)
      .map((group) => [group.letters, `of them: ${faultOf(group)} (${group.reason})`] as const),
    ...(Object.keys(WHY_UNKNOWN) as UnknownWhy[]).map(
      (why) => [unknown[why], `cannot be known beforehand: ${WHY_UNKNOWN[why]}`] as const,
    ),
  ];
  return table({
    caption: `What trying again would achieve now${letters < count ? `, of the first ${letters}` : ""}`,
    rows: results.filter(([number]) => number > 0),
    columns: [
      { heading: "Letters", isNumber: true, cell: ([number]) => number },
      { heading: "Result", cell: ([, text]) => text },
    ],
  });
}
