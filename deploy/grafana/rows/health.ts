/** Is it healthy? Single figures of the current state. */
import type { RowSpec } from "../panel-spec.ts";
import { inQueues, JOB, shared } from "../promql.ts";

const ON_TIME = 'le=~"900(\\\\.0)?"';

export const HEALTH: RowSpec = {
  title: "Is it healthy?",
  height: 4,
  panels: [
    {
      kind: "stat",
      title: "Oldest waiting",
      description:
        "Age of the oldest live change that is not on the service; 0 when there is none.",
      runbook: "CrmsyncChangeStuck",
      unit: "s",
      width: 3,
      none: "unknown",
      queries: [{ expr: shared("oldest_unsynced_age_seconds", ', lane="live"'), legend: "live" }],
      thresholds: [
        [null, "green"],
        [300, "yellow"],
        [900, "red"],
      ],
    },
    {
      kind: "stat",
      title: "On time, last 1 h",
      description:
        "Share of the last hour's live changes that were on the service within 15 minutes (objective: 99 %).",
      runbook: "CrmsyncFreshnessFastBurn",
      unit: "percentunit",
      width: 3,
      none: "no changes",
      queries: [
        {
          expr: `sum(rate(crmsync_change_freshness_seconds_bucket{${JOB}, lane="live", ${ON_TIME}}[1h])) / (sum(rate(crmsync_change_freshness_seconds_count{${JOB}, lane="live"}[1h])) > 0)`,
          legend: "on time",
        },
      ],
      thresholds: [
        [null, "red"],
        [0.98, "yellow"],
        [0.99, "green"],
      ],
    },
    {
      kind: "stat",
      title: "Quota left",
      description: "Share of the hour's requests that is left.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "percentunit",
      width: 3,
      none: "unknown",
      queries: [
        { expr: `${shared("quota_remaining")} / ${shared("quota_limit")}`, legend: "left" },
      ],
      thresholds: [
        [null, "red"],
        [0.02, "yellow"],
        [0.1, "green"],
      ],
    },
    {
      kind: "stat",
      title: "Next returns",
      description: "When the next spent request returns to the quota; now, if none is spent.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "dateTimeFromNow",
      width: 3,
      none: "unknown",
      queries: [{ expr: `1000 * ${shared("quota_reset_timestamp_seconds")}`, legend: "at" }],
      thresholds: [[null, "blue"]],
    },
    {
      kind: "stat",
      title: "Drained at",
      description:
        "When everything that waits now will be on the service, at the quota's rate. Unknown while Redis is away, and while sending is stopped until somebody acts.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "dateTimeAsLocalNoDateIfToday",
      width: 3,
      none: "unknown",
      queries: [{ expr: `1000 * ${shared("backlog_drained_timestamp_seconds")}`, legend: "at" }],
      thresholds: [[null, "blue"]],
    },
    {
      kind: "stat",
      title: "Waiting",
      description:
        "Changes that are not on the service: records of both lanes, events in the inbox, and records still to be fetched from their CRM.",
      runbook: "Start here",
      unit: "short",
      width: 3,
      none: "unknown",
      queries: [
        {
          expr: `sum(${shared("unsynced_records", "", "lane")}) + ${inQueues("crm-events|fetch")}`,
          legend: "changes",
        },
      ],
      thresholds: [[null, "blue"]],
    },
    {
      kind: "stat",
      title: "Dead letters",
      description: "Changes that need a person: crmsync dead list.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 3,
      none: "unknown",
      queries: [{ expr: shared("dead_letters"), legend: "dead letters" }],
      thresholds: [
        [null, "green"],
        [1, "red"],
      ],
    },
    {
      kind: "stat",
      title: "Access",
      description:
        "Whether the service grants access. During a denial nothing is sent and every change is kept.",
      runbook: "CrmsyncTokenDenied",
      unit: "short",
      width: 3,
      none: "unknown",
      queries: [
        {
          expr: `${shared("auth_state", ', state="token_denied"')} + 2 * ${shared("auth_state", ', state="address_denied"')}`,
          legend: "access",
        },
      ],
      values: {
        "0": ["granted", "green"],
        "1": ["token denied", "red"],
        "2": ["address denied", "red"],
      },
      valueSize: 18,
      thresholds: [[null, "green"]],
    },
  ],
};
