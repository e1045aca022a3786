/** Events, senders, webhooks and mappings. */
import type { RowSpec } from "../panel-spec.ts";
import { rate, increase, shared } from "../promql.ts";

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
        "By how much the clock of a source was ahead of Redis' clock within the last hour; negative: it was set back.",
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
        "Changes that a CRM of PULL_FROM told when it was asked: known ones, new ones, and how many of these, older than a minute, no webhook had brought.",
      runbook: "Webhooks get lost",
      unit: "short",
      width: 12,
      none: "no CRM is pulled",
      queries: [
        {
          expr: `sum by (crm, result) (${increase("pull_changes_total")})`,
          legend: "{{crm}} {{result}}",
        },
      ],
    },
    {
      kind: "lines",
      title: "Since the last pull",
      description:
        "Time since the last pull of each CRM that has brought all its changes, and how many CRMs are overdue.",
      runbook: "CrmsyncPullOverdue",
      unit: "s",
      width: 12,
      none: "no CRM is pulled",
      queries: [
        {
          expr: `time() - ${shared("pull_last_success_timestamp_seconds", "", "crm")}`,
          legend: "{{crm}}",
        },
        { expr: `${shared("pulls_overdue")} > 0`, legend: "overdue CRMs" },
      ],
      colors: { "overdue CRMs": "red" },
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
