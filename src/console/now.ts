/** The tab Now: what needs a person, whether changes are fresh, what waits and until when, the quota of the hour. */
import { counted } from "../ops/counted.ts";
import type { Finding } from "../status/finding.ts";
import type { Readings } from "../status/readings.ts";
import { areProcessesUnknownIn, statusOf, type Status } from "../status/status.ts";
import { waitingIn } from "../status/status-text.ts";
import { facts, html, type Html, type Value, ago, moment, table } from "./html.ts";
import { live, tabPath, type Pages } from "./pages.ts";
import type { ConsolePorts } from "./access.ts";
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
        ${card("Freshness", freshness(readings, config.QUOTA_HOUR_MS))}
        ${card("What waits", backlog(status))} ${card("Quota of the hour", quota(readings))}
        ${card("The last hour", lastHour(status))}
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
  if (findings.some(({ severity }) => severity === "stopped")) {
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
    return `${waits}${bulk.paused !== null && bulk.waiting > 0 ? "; imports are paused" : "; their end is not known now"}`;
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

const card = (title: string, content: Html): Html =>
  html`<section class="card">
    <h2>${title}</h2>
    ${content}
  </section>`;

const figure = (content: Value, tone = ""): Html => html`<p class="figure ${tone}">${content}</p>`;

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
  return html`${oldest.live === undefined ? figure("Live changes are up to date", "good") : figure(html`The oldest live change came ${ago(oldest.live)}`)}
    ${columnsFigure(written, "written", `Changes written in each sixtieth of the last hour, at most ${Math.max(...written)}`)}
    <p class="dim">
      Changes written in the last
      hour.${Number.isFinite(last) && html` The last event came ${ago(last)}.`}
    </p>`;
}

function backlog({ backlog, bulk, deadLetters, outcomesOfLastHour, terminations }: Status): Html {
  const { drainedAt, inbox, live, retrying, toFetch } = backlog;
  const waiting = waitingIn(backlog);
  const sent = sumOfWritten(outcomesOfLastHour);
  const parts = [
    [sent, "written"],
    [live.records + inbox + toFetch, "spent"],
    [bulk.waiting, "imports"],
  ] as const;
  const words = [
    ...(live.records > 0 ? [`${live.records} live`] : []),
    ...(bulk.waiting > 0 ? [`${bulk.waiting} of imports`] : []),
    ...(inbox > 0 ? [`${inbox} just arrived`] : []),
    ...(toFetch > 0 ? [`${toFetch} to fetch from the CRM`] : []),
    ...(retrying > 0 ? [`${retrying} to be tried again`] : []),
  ];
  return html`${figure(waiting === 0 ? "Nothing" : counted(waiting, "change"))}
  ${
    waiting > 0 &&
    html`${barFigure(parts, sent + waiting, `${waiting} wait, ${sent} were written in the last hour`)}
      <p class="dim">
        ${words.join(", ")}${sent > 0 && `; ${sent} were written in the last hour`}.
        ${drainedAt === null ? "Their end is not known now." : html`All are sent by ${moment(Date.parse(drainedAt))}.`}
      </p>`
  }
  ${
    terminations.held + deadLetters.total > 0 &&
    html`<p class="dim">
      For a person: <a href="${tabPath("held")}">${terminations.held} held</a>,
      <a href="${tabPath("dead")}">${counted(deadLetters.total, "dead letter")}</a>.
    </p>`
  }`;
}

function quota({ quota }: Readings): Html {
  const { allReturnedAt, limit, pacing, remaining, resetAt, returns, until } = quota;
  const spent = Math.max(0, limit - remaining);
  return html`${figure(`${remaining} of ${limit} requests left`)}
    ${barFigure([[spent, "spent"]], limit, `${spent} of ${limit} requests are spent`)}
    ${columnsFigure(returns, "spent", "Requests of each part of the last hour")}
    <p class="dim">
      ${spent === 0 ? "None is spent." : html`${spent} spent: the first returns ${ago(resetAt)}, all by ${moment(allReturnedAt)}. Above: when they were spent.`}
      ${pacing === "steady" && "Requests are spread evenly over the hour."}
      ${until !== undefined && html`<strong>Stopped until ${moment(until)}.</strong>`}
    </p>`;
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
  return html`${figure(written.join(", ") || "Nothing was written")}
    ${rest.length > 0 && html`<p>${rest.map(([name, count]) => `${count} ${ENDED[name] ?? name}`).join(", ")}.</p>`}
    <p class="${values > 0 ? "warning" : "dim"}">
      ${values === 0 ? "No value was left out." : `${counted(values, "value was", "values were")} left out, because the mapping could not use them: ${named.join(", ")}${fields.length > named.length ? ", …" : ""}.`}
    </p>`;
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
          : html`<span class="bad">denied</span> since ${ago(denial.since)}; next try
              ${ago(denial.nextProbeAt)}`,
      Token: token.ageDays === null ? "its date of issue is not set" : `${token.ageDays} days old`,
      "Terminations in 24 hours": `${inLast24Hours}${limit === null ? ", unlimited" : ` of ${limit}`}`,
      "What the service has": `${KNOWN[ledger.state] ?? ledger.state}: ${counted(ledger.rows, "record")}`,
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

const WIDTH = 600;
const BAR = 12;
const CHART = 48;

const svg = (height: number, label: string, drawn: Html | Html[]): Html =>
  html`<svg
    role="img"
    aria-label="${label}"
    viewBox="0 0 ${WIDTH} ${height}"
    height="${height}"
    preserveAspectRatio="none"
  >
    ${drawn}
  </svg>`;

const rect = (colour: string, x: number, y: number, width: number, height: number): Html =>
  html`<rect class="${colour}" x="${x}" y="${y}" width="${width}" height="${height}"></rect>`;

/** @param parts how much, and its colour; side by side. */
function barFigure(
  parts: readonly (readonly [count: number, colour: string])[],
  whole: number,
  label: string,
): Html {
  let from = 0;
  const drawn = parts.map(([count, colour]) => {
    const width = Math.round(WIDTH * Math.min(1, count / Math.max(1, whole)));
    from += width;
    return rect(colour, from - width, 0, width, BAR);
  });
  return svg(BAR, label, [rect("left", 0, 0, WIDTH, BAR), ...drawn]);
}

/** One column each, the present one at the right. */
function columnsFigure(counts: readonly number[], colour: string, label: string): Html {
  const most = Math.max(1, ...counts);
  const step = WIDTH / counts.length;
  const drawn = counts.map((count, n) => {
    const height = count === 0 ? 0 : Math.max(2, Math.round((CHART * count) / most));
    return rect(colour, n * step + 1, CHART - height, step - 2, height);
  });
  return svg(CHART, label, [rect("left", 0, CHART - 1, WIDTH, 1), ...drawn]);
}
