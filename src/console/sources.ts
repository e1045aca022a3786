/** The tab Sources: when each source was heard last, and which requests of senders were refused. */
import { counted } from "../ops/counted.ts";
import { duration } from "../status/clock-time.ts";
import type { Readings } from "../status/readings.ts";
import { clockAheadNow, isSilent, refusedIn, type RefusedRequests } from "../status/senders.ts";
import { sumOf } from "../state/outcomes.ts";
import { html, type Html, ago, table } from "./html.ts";
import { live, tabPath, type Pages } from "./pages.ts";
import type { ConsolePorts } from "./access.ts";
import { runbookView } from "./remedies.ts";

/** Sources that are shown: those heard last. */
const MOST = 500;

export function serveSources(pages: Pages, ports: ConsolePorts): void {
  pages.show(tabPath("sources"), async () => {
    const readings = await ports.readings();
    const main = live(
      "sources",
      html`${heard(readings)}${pulled(readings)}${refused(refusedIn(sumOf(readings.minutes)))}`,
    );
    const heading = stateText(readings);
    return { title: "Sources", heading, tab: "sources", main };
  });
}

function stateText({ now, sources }: Readings): string {
  const all = Object.values(sources);
  const silent = all.filter((at) => isSilent(now, at)).length;
  if (all.length === 0) return "No event has been received yet";
  const are = silent === 1 ? "is" : "are";
  return silent === 0
    ? `${counted(all.length, "source")} heard, none is silent`
    : `${silent} of ${counted(all.length, "source")} ${are} silent for more than a day`;
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
      { heading: "State", cell: ([source, at]) => stateOf(readings, source, at) },
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

function stateOf({ now, clocksAhead }: Readings, source: string, at: number): Html | Html[] {
  const seen = clocksAhead[source];
  const aheadMs = seen === undefined ? 0 : clockAheadNow(now, seen);
  const states = [
    ...(isSilent(now, at) ? [html`<span class="bad">silent for more than a day</span>`] : []),
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
