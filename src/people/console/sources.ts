/** The tab Sources: when each source was heard last, which requests were refused, how old the value lists are. */
import { counted } from "../../base/counted.ts";
import { duration } from "../../operate/status/clock-time.ts";
import type { Readings } from "../../operate/status/readings.ts";
import {
  clockAheadNow,
  refusedIn,
  silentIn,
  type RefusedRequests,
} from "../../operate/status/senders.ts";
import { sumOf } from "../../core/state/outcomes.ts";
import { html, type Html, ago, table } from "./html.ts";
import { may } from "../../base/person.ts";
import { refreshLists } from "../../operate/refresh-lists.ts";
import { isAfterAct, live, postForm, tabPath, type Pages } from "./pages.ts";
import { actorOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { runbookView } from "./remedies.ts";

const PATH = tabPath("sources");
const REFRESH = `${PATH}/lists`;

/** Sources that are shown: those heard last. */
const MOST = 500;

export function serveSources(pages: Pages, ports: ConsolePorts): void {
  pages.show(PATH, async (request) => {
    const readings = await (isAfterAct(request) ? ports.freshReadings() : ports.readings());
    const main = live(
      "sources",
      html`${heard(readings)}${pulled(readings)}${refused(refusedIn(sumOf(readings.minutes)))}${valueLists(sessionOf(request), readings)}`,
    );
    const heading = stateText(readings);
    return { title: "Sources", heading, tab: "sources", main };
  });
  pages.act(REFRESH, async (request) => {
    const says = (await refreshLists(ports.stores, actorOf(request)))
      ? "The value lists are fetched within a minute."
      : "The value lists are fetched once a process runs that sends to the service.";
    return { path: PATH, says };
  });
}

function valueLists(session: Session, { listsFetchedAt }: Readings): Html {
  return html`<h2>Value lists of the tenant</h2>
    <p>
      ${listsFetchedAt === undefined ? "The service has not returned them yet." : html`Fetched from the service ${ago(listsFetchedAt)}.`}
      They are fetched once an hour, and when the service and they disagree.
    </p>
    ${
      may(session.person, "act") &&
      postForm(session, REFRESH, html`<button>Fetch them now: one request</button>`)
    }`;
}

function stateText(readings: Readings): string {
  const all = Object.keys(readings.sources);
  const silent = silentIn(readings).size;
  if (all.length === 0) return "No event has been received yet";
  const are = silent === 1 ? "is" : "are";
  return silent === 0
    ? `${counted(all.length, "source")} heard, none is silent`
    : `${silent} of ${counted(all.length, "source")} ${are} silent`;
}

function heard(readings: Readings): Html {
  const all = Object.entries(readings.sources).sort(([, a], [, b]) => b - a);
  if (all.length === 0) {
    return html`<p class="dim">Each source of events is shown here once its first event came.</p>`;
  }
  const hidden = all.length - MOST;
  return html`${table({
    caption: "Sources of events, the last heard first",
    rows: all.slice(0, MOST),
    columns: [
      { heading: "Source", cell: ([source]) => source },
      {
        heading: "Last event",
        cell: ([, at]) => ago(at),
      },
      { heading: "State", cell: ([source]) => stateOf(readings, source) },
    ],
  })}
  ${hidden > 0 && html`<p>${hidden} more are not shown.</p>`}`;
}

function pulled({ minutes, pulls }: Readings): Html | false {
  const all = Object.entries(pulls);
  const missed = sumOf(minutes);
  return (
    all.length > 0 &&
    html`<h2>Pulled CRMs</h2>
      ${table({
        caption: "CRMs that are asked for changes",
        rows: all,
        columns: [
          { heading: "CRM", cell: ([crm]) => crm },
          {
            heading: "Last pull",
            cell: ([, { at }]) => ago(at, "not yet"),
          },
          {
            heading: "State",
            cell: ([, { failure }]) =>
              failure === undefined
                ? html`<span class="good">answers</span>`
                : html`<span class="bad">${failure.why}</span>`,
          },
          {
            heading: "Without a webhook, last hour",
            isNumber: true,
            cell: ([crm]) => missed[`pull_missed ${crm}`] ?? 0,
          },
        ],
      })}`
  );
}

function stateOf(readings: Readings, source: string): Html | Html[] {
  const { now, clocksAhead } = readings;
  const seen = clocksAhead[source];
  const aheadMs = seen === undefined ? 0 : clockAheadNow(now, seen);
  const states = [
    ...(silentIn(readings).has(source)
      ? [html`<span class="bad">silent for longer than it uses to be</span>`]
      : []),
    ...(aheadMs > 0
      ? [html`<span class="bad">its clock is ${duration(aheadMs)} ahead</span>`]
      : []),
  ];
  return states.length === 0 ? html`<span class="good">heard</span>` : states;
}

/** Of an HTTP status; webhooks name it themselves. */
const WHY: Readonly<Record<string, string>> = {
  400: "400: it is not a valid event",
  401: "401: its token or signature is wrong or absent",
  413: "413: it is too large",
  429: "429: too many requests of one sender",
  503: "503: crmsync could not take it then",
};

function refused(requests: readonly RefusedRequests[]): Html {
  if (requests.length === 0) {
    return html`<h2>Refused requests</h2>
      <p class="good">No request of a sender was refused in the last hour.</p>`;
  }
  return html`<h2>Refused requests</h2>
    <p>
      The events of these requests are not here. Senders that keep them send them again once the
      cause is removed.
    </p>
    ${runbookView("docs/runbook.md#crmsyncsendererrors", "refused")}
    ${table({
      caption: "Requests of senders that were not accepted in the last hour",
      rows: requests,
      columns: [
        { heading: "Address", cell: ({ address }) => html`<code>${address}</code>` },
        { heading: "Why", cell: ({ why }) => WHY[why] ?? why.replaceAll("_", " ") },
        { heading: "Requests", isNumber: true, cell: ({ count }) => count },
      ],
    })}`;
}
