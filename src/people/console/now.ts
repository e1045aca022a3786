/** The tab Now: what needs a person, whether changes are fresh, what waits and until when, the quota of the hour. */
import { counted } from "../../base/counted.ts";
import type { Finding } from "../../operate/status/finding.ts";
import type { Readings } from "../../operate/status/readings.ts";
import { areProcessesUnknownIn, statusOf, type Status } from "../../operate/status/status.ts";
import { waitingIn } from "../../operate/status/status-text.ts";
import { barFigure, columnsFigure } from "./charts.ts";
import { facts, html, type Html, type Value, ago, moment, table } from "./html.ts";
import { live, tabPath, type Pages } from "./pages.ts";
import type { ConsolePorts } from "./access.ts";
import { listLink } from "./record-list.ts";
import { remedyView } from "./remedies.ts";
import { inOurWords, told } from "./words.ts";

export function serveNow(pages: Pages, ports: ConsolePorts): void {
  const { config } = ports.stores;
  pages.show(tabPath("now"), async () => {
    const readings = await ports.readings();
    const status = statusOf(readings, config, ports.version);
    const main = html`${live("findings", findings(status))}
    ${live(
      "cards",
      html`<div class="cards">
        ${freshness(readings, config.QUOTA_HOUR_MS)} ${backlog(status)}
        ${quota(readings, config.QUOTA_HOUR_MS)} ${lastHour(status)}
      </div>`,
    )}
    ${live("rest", more(status))}`;
    const heading = stateText(status);
    return { title: "Now", heading, tab: "now", main };
  });
}

/** The state in one sentence. */
function stateText(status: Status): Value {
  const { at, backlog, bulk, deadLetters, findings, terminations } = status;
  const waiting = waitingIn(backlog);
  const changes = counted(waiting, "change");
  const waits = `${changes} ${waiting === 1 ? "waits" : "wait"}`;
  // A stop may have no reason of its own, such as a role that no process has.
  if (
    findings.some(({ effect, severity }) => severity === "stopped" || effect === "nothing_sent")
  ) {
    return `Nothing is sent now; ${waiting === 0 ? "no change waits" : waits}`;
  }
  if (waiting === 0) {
    const others = [
      ...(terminations.held > 0 ? [`${terminations.held} held`] : []),
      ...(deadLetters.total > 0 ? [`${deadLetters.total} rejected`] : []),
    ];
    return `All changes are on the service${others.length === 0 ? "" : `, except ${others.join(" and ")}`}`;
  }
  const { drainedAt } = backlog;
  if (drainedAt === null) {
    return `${waits}${bulk.paused !== null && bulk.requests > 0 ? "; imports are paused" : "; their end is not known now"}`;
  }
  const end = Date.parse(drainedAt);
  return end - Date.parse(at) < 2000
    ? `${changes} ${waiting === 1 ? "is" : "are"} being sent`
    : html`${waits}, sent by ${moment(end)}`;
}

const SEVERITIES: Readonly<Record<Finding["severity"], string>> = {
  stopped: "Stopped",
  critical: "Critical",
  warning: "Warning",
};

function findings({ findings }: Status): Html | string {
  if (findings.length === 0) return "";
  // Several findings may be of one section; the first keeps its id when others come.
  const seen: Record<string, number> = {};
  return html`<ul class="findings" aria-label="What needs attention">
    ${findings.map(({ severity, says, runbook }) => {
      const nth = (seen[runbook] = (seen[runbook] ?? 0) + 1);
      const [, first = says, rest = ""] = /^(.+?[.])\s+([A-Z][^]*)$/.exec(inOurWords(says)) ?? [];
      return html`<li class="${severity === "warning" ? "warning" : "bad"}">
        ${remedyView(runbook, `do-${runbook.split("#")[1] ?? ""}-${nth}`, {
          says: html`<strong>${SEVERITIES[severity]}</strong>
            <span class="says">${told(first)}</span>`,
          rest: rest === "" ? "" : told(rest),
        })}
      </li>`;
    })}
  </ul>`;
}

/** @param figure the state in a few words; on a phone, all four stand together above what is said of them. */
const card = (title: string, figure: Value, about: Html, tone = ""): Html =>
  html`<section class="card">
    <div class="head">
      <h2>${title}</h2>
      <p class="figure ${tone}">${figure}</p>
    </div>
    <div class="about">${about}</div>
  </section>`;

/** Changes that ended with a write at the service. */
const sumOfWritten = ({ created = 0, updated = 0 }: Readonly<Record<string, number>>): number =>
  created + updated;

function freshness({ minutes, now, oldest, sources }: Readings, hourMs: number): Html {
  const written = Array.from({ length: 60 }, () => 0);
  for (const { since, counts } of minutes) {
    const slot = 59 - Math.floor((now - since) / (hourMs / 60));
    if (slot in written) written[slot] = (written[slot] ?? 0) + sumOfWritten(counts);
  }
  const last = Math.max(...Object.values(sources));
  const about = html`${columnsFigure(written, { id: "written", what: "changes written", colour: "written", spanMs: hourMs })}
    <p class="dim">
      Changes written in the last
      hour.${Number.isFinite(last) && html` The last event came ${ago(last)}.`}
    </p>`;
  return oldest.live === undefined
    ? card("Freshness", "Live changes are up to date", about, "good")
    : card("Freshness", html`The oldest live change came ${ago(oldest.live)}`, about);
}

function backlog({ backlog, bulk, deadLetters, outcomesOfLastHour, terminations }: Status): Html {
  const { drainedAt, fromPlan, inbox, live, retrying, toFetch } = backlog;
  const waiting = waitingIn(backlog);
  const sent = sumOfWritten(outcomesOfLastHour);
  const parts = [
    { count: sent, colour: "written", what: "written in the last hour" },
    { count: live.records + inbox + toFetch, colour: "spent", what: "wait, not of imports" },
    { count: bulk.waiting + fromPlan, colour: "imports", what: "of imports wait" },
  ];
  // What just arrived has no record yet: a link leads to as many as it says.
  const inLine = live.records + bulk.waiting;
  const toList = (text: string) => listLink(text, "waiting", "retrying");
  const words = [
    ...(inLine > 0 && inLine < waiting ? [toList(`${inLine} in line`)] : []),
    ...(inbox > 0 ? [`${inbox} just arrived`] : []),
    ...(toFetch > 0 ? [`${toFetch} to fetch from the CRM`] : []),
    ...(retrying > 0 ? [`${retrying} to be tried again`] : []),
  ];
  const about = html`${
    waiting > 0 &&
    html`${barFigure(parts, sent + waiting)}
      <p class="dim">
        ${words.map((word, n) => html`${n > 0 && ", "}${word}`)}${words.length > 0 && ". "}${drainedAt === null ? "Their end is not known now." : html`All are sent by ${moment(Date.parse(drainedAt))}.`}
      </p>`
  }
  ${
    terminations.held + deadLetters.total > 0 &&
    html`<p class="dim">
      For a person: <a href="${tabPath("held")}">${terminations.held} held</a>,
      <a href="${tabPath("dead")}">${counted(deadLetters.total, "dead letter")}</a>.
    </p>`
  }`;
  const all = counted(waiting, "change");
  const figure = waiting === 0 ? "Nothing" : inLine === waiting ? toList(all) : all;
  return card("What waits", figure, about);
}

function quota({ quota }: Readings, hourMs: number): Html {
  const { allReturnedAt, limit, pacing, remaining, resetAt, returns, until } = quota;
  const spent = Math.max(0, limit - remaining);
  const about = html`${barFigure([{ count: spent, colour: "spent", what: "spent" }], limit)}
    ${columnsFigure(returns, { id: "spent", what: "requests sent", colour: "spent", spanMs: hourMs })}
    <p class="dim">
      ${spent === 0 ? "None is spent." : html`The first returns ${ago(resetAt)}, all by ${moment(allReturnedAt)}.`}
      ${pacing === "steady" && "Requests are spread evenly over the hour."}
      ${until !== undefined && html`<strong>Stopped until ${moment(until)}.</strong>`}
    </p>`;
  return card("Quota of the hour", `${remaining} of ${limit} requests left`, about);
}

const ENDED: Readonly<Record<string, string>> = {
  nothing_to_terminate: "had nothing to terminate",
  coalesced: "replaced by a newer change before it was sent",
  superseded: "older than what is known",
  duplicate: "sent twice",
  ignored: "ignored by the mapping",
};

/** Most fields that are named. */
const MOST_FIELDS = 3;

function lastHour({ leftOut, outcomesOfLastHour }: Status): Html {
  const { created = 0, updated = 0, ...others } = outcomesOfLastHour;
  const rest = Object.entries(others).filter(([, count]) => count > 0);
  const fields = Object.entries(leftOut);
  const named = fields.slice(0, MOST_FIELDS).map(([field, count]) => `${field} ${count}`);
  const values = Object.values(leftOut).reduce((sum, count) => sum + count, 0);
  const written = [
    ...(created > 0 ? [`${created} created`] : []),
    ...(updated > 0 ? [`${updated} updated`] : []),
  ];
  const about = html`${rest.length > 0 && html`<p>${rest.map(([name, count]) => `${count} ${ENDED[name] ?? name}`).join(", ")}.</p>`}
  ${
    values > 0 &&
    html`<p class="warning">
      ${counted(values, "value was", "values were")} left out, because the mapping could not use
      them: ${named.join(", ")}${fields.length > named.length && ", …"}.
    </p>`
  }`;
  return card("The last hour", written.join(", ") || "Nothing was written", about);
}

const KNOWN: Readonly<Record<string, string>> = {
  new: "not read yet",
  running: "is being read",
  done: "known",
  cold: "could not be read: a change may cost a second request",
};

function more(status: Status): Html {
  const { denial, ledger, processes, sendingStopped, terminations, token } = status;
  const { inLast24Hours, limit } = terminations;
  return html`<details id="more" class="more">
    <summary>More about the service and the processes</summary>
    ${facts({
      "Sending is stopped":
        sendingStopped.length > 0 &&
        html`<span class="bad"
          >${sendingStopped.map((reason) => reason.replaceAll("_", " ")).join(", ")}</span
        >`,
      Access:
        denial.since === null
          ? "granted"
          : html`<span class="bad">denied</span> since ${moment(Date.parse(denial.since))}; next try
              ${ago(denial.nextProbeAt)}`,
      Token: token.ageDays === null ? "its date of issue is not set" : `${token.ageDays} days old`,
      "Terminations in 24 hours": `${inLast24Hours}${limit === null ? ", unlimited" : ` of ${limit}`}`,
      "What the service has": html`${KNOWN[ledger.state] ?? ledger.state}:
      ${counted(ledger.rows, "record")}; ${listLink("all with their state")}`,
    })}
    ${
      processes.length > 0
        ? table({
            caption: "Processes that run",
            rows: processes,
            columns: [
              { heading: "Process", cell: ({ id }) => html`<code>${id}</code>` },
              { heading: "Roles", cell: ({ roles }) => roles.join(", ") },
              { heading: "Version", cell: ({ version }) => version },
              { heading: "Started", cell: ({ startedAt }) => ago(startedAt) },
            ],
          })
        : areProcessesUnknownIn(status)
          ? html`<p>
              Which processes run is not known while Redis rejects writes: no process can send its
              heartbeat.
            </p>`
          : html`<p class="bad">No process is running.</p>`
    }
  </details>`;
}
