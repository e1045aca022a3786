/** The tab Now: what needs a person, what waits and until when, and the quota of the hour. */
import type { FastifyInstance } from "fastify";
import { duration } from "../status/duration.ts";
import type { Finding } from "../status/finding.ts";
import { requestsFor } from "../status/backlog.ts";
import { sentAt } from "../status/stops.ts";
import { knownText } from "../status/status-text.ts";
import type { Readings } from "../status/readings.ts";
import { areProcessesUnknownIn, statusOf, type Status } from "../status/status.ts";
import { LANES, type Lane } from "../event/lane.ts";
import { html, type Html } from "./html.ts";
import { live, tabPath } from "./layout.ts";
import { moment, momentOf } from "./moment.ts";
import type { ConsolePorts } from "./ports.ts";
import { remedyView } from "./remedies.ts";
import { quotaFigure } from "./quota-figure.ts";
import { sendPage } from "./send-page.ts";
import { table, type Column } from "./table.ts";

export function serveNow(app: FastifyInstance, ports: ConsolePorts): void {
  app.get(tabPath("now"), async (request, reply) => {
    const readings = await ports.readings();
    const status = statusOf(readings, ports.stores.config, ports.version);
    const main = html`${live("findings", findings(status))}
    ${live(
      "backlog",
      html`<h2>What waits</h2>
        ${backlog(readings, status)}`,
    )}
    ${live(
      "quota",
      html`<h2>The quota of the hour</h2>
        ${quotaFigure(readings, ports.stores.config.QUOTA_HOUR_MS)}`,
    )}
    ${live(
      "service",
      html`<h2>The service</h2>
        ${service(status)}`,
    )}
    ${live(
      "hour",
      html`<h2>The last hour</h2>
        ${lastHour(status)}`,
    )}
    ${live(
      "processes",
      html`<h2>Processes</h2>
        ${processes(status)}`,
    )}`;
    return sendPage(request, reply, ports, { title: "Now", tab: "now", main });
  });
}

const SEVERITIES: Readonly<Record<Finding["severity"], string>> = {
  stopped: "Stopped",
  critical: "Critical",
  warning: "Warning",
};

function findings({ findings }: Status): Html {
  if (findings.length === 0) {
    return html`<p class="notice good">Nothing needs attention.</p>`;
  }
  return html`<h2>${findings.length === 1 ? "1 finding" : `${findings.length} findings`}</h2>
    <ul class="findings">
      ${findings.map(
        ({ severity, says, runbook }) =>
          html`<li class="${severity === "warning" ? "warning" : "bad"}">
            <strong>${SEVERITIES[severity]}</strong> ${says} ${remedyView(runbook)}
          </li>`,
      )}
    </ul>`;
}

function backlog(readings: Readings, status: Status): Html {
  const { inbox, toFetch, retrying } = status.backlog;
  const { held } = status.terminations;
  return html`${table({
      caption: "Changes that are not on the service yet",
      rows: LANES,
      columns: laneColumns(readings, status),
    })}
    <dl>
      <dt>Events in the inbox</dt>
      <dd>${inbox}</dd>
      <dt>Records to fetch from the CRM</dt>
      <dd>${toFetch}</dd>
      <dt>Records that wait for a retry</dt>
      <dd>${retrying}</dd>
      <dt>Changes held for a person</dt>
      <dd>${held === 0 ? "0" : html`<a href="${tabPath("held")}">${held}</a>`}</dd>
      <dt>Dead letters</dt>
      <dd>
        ${status.deadLetters.total === 0 ? "0" : html`<a href="${tabPath("dead")}">${status.deadLetters.total}</a>`}
      </dd>
    </dl>`;
}

function laneColumns(readings: Readings, status: Status): Column<Lane>[] {
  return [
    { heading: "Lane", cell: (lane) => lane },
    { heading: "Records", isNumber: true, cell: (lane) => status.backlog[lane].records },
    {
      heading: "Oldest change",
      cell(lane) {
        const oldest = readings.oldest[lane];
        const ago = duration(status.backlog[lane].oldestAgeSeconds * 1000);
        return oldest === undefined ? "none" : html`${moment(oldest)}, ${ago} ago`;
      },
    },
    {
      heading: "All sent at",
      cell: (lane) =>
        status.backlog[lane].records === 0
          ? "–"
          : moment(laneEnd(readings, status, lane), "not known while it is stopped"),
    },
  ];
}

/** Live changes are sent before bulk work. */
const laneEnd = (readings: Readings, { bulk }: Status, lane: Lane): number | undefined => {
  if (lane === "live") return sentAt(readings, { ...requestsFor(readings), bulk: 0 }, ["live"]);
  return bulk.endsAt === null ? undefined : Date.parse(bulk.endsAt);
};

const WARMTH: Readonly<Record<string, string>> = {
  new: "not listed yet",
  running: "is being listed",
  done: "warm",
  cold: "cold: a change may cost a second request",
};

function service(status: Status): Html {
  const { denial, findings, ledger, sendingStopped, terminations, token } = status;
  const { inLast24Hours, limit } = terminations;
  const reasons = sendingStopped.map((reason) => reason.replaceAll("_", " ")).join(", ");
  // A stop may have no reason of its own, such as a role that no process has.
  const isStopped = findings.some(({ severity }) => severity === "stopped");
  const stops = reasons === "" && isStopped ? "see above" : reasons;
  return html`<dl>
    <dt>Sending</dt>
    <dd>
      ${stops === "" ? html`<span class="good">open</span>` : html`<span class="bad">stopped: ${stops}</span>`}
    </dd>
    <dt>Access</dt>
    <dd>
      ${
        denial.since === null
          ? html`<span class="good">granted</span>`
          : html`<span class="bad">${denial.state.replaceAll("_", " ")}</span> since
              ${momentOf(denial.since)}; next probe ${momentOf(denial.nextProbeAt)}`
      }
    </dd>
    <dt>Token</dt>
    <dd>
      ${token.ageDays === null ? "its date of issue is not set" : `${token.ageDays} days old`}
    </dd>
    <dt>Terminations in 24 hours</dt>
    <dd>${inLast24Hours}${limit === null ? ", unlimited" : ` of ${limit}`}</dd>
    <dt>Ledger</dt>
    <dd>${WARMTH[ledger.state] ?? ledger.state}, ${knownText(ledger)}</dd>
  </dl>`;
}

function lastHour({ outcomesOfLastHour }: Status): Html {
  const rows = Object.entries(outcomesOfLastHour).filter(([, count]) => count > 0);
  if (rows.length === 0) return html`<p>No change has ended in the last hour.</p>`;
  return table({
    caption: "How changes ended",
    isNarrow: true,
    rows,
    columns: [
      { heading: "Outcome", cell: ([outcome]) => outcome.replaceAll("_", " ") },
      { heading: "Changes", isNumber: true, cell: ([, count]) => count },
    ],
  });
}

function processes(status: Status): Html {
  const { processes } = status;
  if (processes.length === 0) {
    return areProcessesUnknownIn(status)
      ? html`<p>Not known while Redis rejects writes: no process can send its heartbeat.</p>`
      : html`<p class="bad">No process is running.</p>`;
  }
  return table({
    caption: "Processes that send heartbeats",
    rows: processes,
    columns: [
      { heading: "Process", cell: ({ id }) => html`<code>${id}</code>` },
      { heading: "Roles", cell: ({ roles }) => roles.join(", ") },
      { heading: "Version", cell: ({ version }) => version },
      { heading: "Running since", cell: ({ startedAt }) => momentOf(startedAt) },
    ],
  });
}
