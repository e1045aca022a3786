/** Events, senders, webhooks and mappings. */
import type { RowSpec } from "../panel-spec.ts";
import { rate, increase, shared } from "../promql.ts";

/** Changes that were pulled within the interval, by CRM. */
const pulled = (result: string): string =>
  `sum by (crm) (${increase("pull_changes_total", `, result="${result}"`)})`;

export const INTAKE: RowSpec = {
  title: "Intake and mapping",
  height: 8,
  collapsed: true,
  panels: [
    {
      kind: "lines",
      title: "Events by source",
      description: "Events taken from the inbox per second.",
      runbook: "CrmsyncSourceSilent",
      unit: "cps",
      width: 8,
      queries: [
        { expr: `sum by (source) (${rate("events_received_total")})`, legend: "{{source}}" },
      ],
    },
    {
      kind: "lines",
      title: "Silence of sources",
      description: "Time since the last event of each source.",
      runbook: "CrmsyncSourceSilent",
      unit: "s",
      width: 8,
      queries: [
        {
          expr: `time() - ${shared("source_last_event_timestamp_seconds", "", "source")}`,
          legend: "{{source}}",
        },
      ],
    },
    {
      kind: "lines",
      title: "Clocks of sources",
      description:
        "By how much the clock of a source was ahead of Redis' clock within the last hour.",
      runbook: "CrmsyncSourceClockAhead",
      unit: "s",
      width: 8,
      hidesZeros: true,
      none: "all are right, or unknown",
      queries: [
        {
          expr: shared("source_clock_ahead_seconds", "", "source"),
          legend: "{{source}}",
        },
      ],
    },
    {
      kind: "bars",
      title: "Changes found by pulling",
      description:
        "Changes that a CRM of PULL_FROM told when it was asked: known ones, new ones, and new ones that no webhook had brought within a minute (missed).",
      runbook: "Webhooks get lost",
      unit: "short",
      width: 12,
      none: "no CRM is pulled",
      queries: [
        { expr: pulled("known"), legend: "{{crm}} known" },
        // A missed change counts as a new one, too: stacked bars would show it twice.
        {
          expr: `${pulled("new")} - (${pulled("missed")} or 0 * ${pulled("new")})`,
          legend: "{{crm}} new",
        },
        { expr: pulled("missed"), legend: "{{crm}} missed" },
      ],
    },
    {
      kind: "lines",
      title: "Since the last pull",
      description:
        "Time since the last pull of each CRM that has brought all its changes; in red the longest of these while a CRM is overdue.",
      runbook: "CrmsyncPullOverdue",
      unit: "s",
      width: 12,
      none: "no CRM is pulled",
      queries: [
        {
          expr: `time() - ${shared("pull_last_success_timestamp_seconds", "", "crm")}`,
          legend: "{{crm}}",
        },
        {
          // In seconds, as the axis is: a number of CRMs would be one or two seconds on it.
          expr: `max(time() - ${shared("pull_last_success_timestamp_seconds", "", "crm")}) and (${shared("pulls_overdue")} > 0)`,
          legend: "overdue",
        },
      ],
      colors: { overdue: "red" },
    },
    {
      kind: "bars",
      title: "Senders' requests by response",
      description:
        "Responses of POST /events and /webhooks (202 accepted, 400 not an event, 401 wrong token or signature, 503 Redis is away or full), outcomes of webhooks, and fetches of records from CRMs.",
      runbook: "CrmsyncSenderErrors",
      unit: "short",
      width: 24,
      none: "no requests",
      queries: [
        {
          expr: `sum by (code) (${increase("intake_requests_total")})`,
          legend: "{{code}}",
        },
        {
          expr: `sum by (webhook, outcome) (${increase("webhook_requests_total")})`,
          legend: "{{webhook}}: {{outcome}}",
        },
        {
          expr: `sum by (reason) (${increase("http_refused_total")})`,
          legend: "refused: {{reason}}",
        },
        {
          expr: `sum by (webhook) (${increase("webhook_gaps_total")})`,
          legend: "{{webhook}} lost changes",
        },
        {
          expr: `sum by (crm, outcome) (${increase("record_fetches_total")})`,
          legend: "fetch {{crm}}: {{outcome}}",
        },
      ],
    },
  ],
};
