/** Is it healthy? Single figures of the current state. */
import type { RowSpec } from "../panel-spec.ts";
import { inQueues, JOB, shared } from "../promql.ts";

const ON_TIME = 'le=~"900(\\\\.0)?"';

const FRESHNESS = `crmsync_change_freshness_seconds_count{${JOB}, lane="live"}`;

/** Nothing is sent: sending is stopped, or live changes wait and none has arrived for five minutes. */
const NOTHING_SENT = `(max(crmsync_sending_stopped{${JOB}}) == 1 or (${shared("unsynced_records", ', lane="live"')} > 0) and on () (sum(increase(${FRESHNESS}[5m])) == 0))`;

/** Seconds since the last event of each source. */
const SILENCE = `(time() - ${shared("source_last_event_timestamp_seconds", "", "source")})`;

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
        "Share of the last hour's live changes that were on the service within 15 minutes (objective: 99 %). Changes that wait are not among them, so there is no figure while nothing is sent.",
      runbook: "CrmsyncFreshnessFastBurn",
      unit: "percentunit",
      width: 3,
      none: "nothing sent",
      queries: [
        {
          expr: `sum(rate(crmsync_change_freshness_seconds_bucket{${JOB}, lane="live", ${ON_TIME}}[1h])) / (sum(rate(${FRESHNESS}[1h])) > 0) unless on () ${NOTHING_SENT}`,
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
    {
      kind: "stat",
      title: "Emptied fields",
      description:
        "Fields that more relations lose within an hour than EMPTY_LIMIT allows; Fields emptied within an hour shows which.",
      runbook: "CrmsyncFieldsEmptied",
      unit: "short",
      width: 3,
      none: "unknown",
      queries: [{ expr: shared("unusually_emptied_fields"), legend: "fields" }],
      thresholds: [
        [null, "green"],
        [1, "red"],
      ],
    },
    {
      kind: "stat",
      title: "Left out, last 1 h",
      description:
        "Values that came, and that the mapping did not understand or could not send; the service keeps what it has in these fields.",
      runbook: "Values were left out",
      unit: "short",
      width: 3,
      none: "none",
      queries: [
        {
          expr: `round(sum(increase(crmsync_mapping_warnings_total{${JOB}, reason!~"kept_as_is|unknown_field|not_carried"}[1h]))) or vector(0)`,
          legend: "values",
        },
      ],
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
    {
      kind: "stat",
      title: "Held",
      description:
        "Terminations beyond TERMINATE_LIMIT, and updates beyond EMPTY_LIMIT: crmsync held list. All other changes go on.",
      runbook: "CrmsyncHeldTerminations",
      unit: "short",
      width: 3,
      none: "unknown",
      queries: [{ expr: shared("held_terminations"), legend: "held" }],
      thresholds: [
        [null, "green"],
        [1, "red"],
      ],
    },
    {
      kind: "stat",
      title: "Drift",
      description:
        "Relations that differed from the CRM at the last comparison and were not repaired by its plan.",
      runbook: "CrmsyncDrift",
      unit: "short",
      width: 3,
      none: "never compared",
      queries: [{ expr: `sum(${shared("drift_relations", "", "kind")})`, legend: "relations" }],
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
    {
      kind: "stat",
      title: "Last comparison",
      description: "When the CRM was last compared with the service: crmsync reconcile.",
      runbook: "CrmsyncChangesLost",
      unit: "dateTimeFromNow",
      width: 4,
      none: "never",
      queries: [{ expr: `1000 * ${shared("reconcile_last_run_timestamp_seconds")}`, legend: "at" }],
      thresholds: [[null, "blue"]],
    },
    {
      kind: "stat",
      title: "Silent sources",
      description:
        "Sources that have sent nothing for half as long again as their longest pause of two weeks; Silence of sources shows which.",
      runbook: "CrmsyncSourceSilent",
      unit: "short",
      width: 4,
      none: "no source yet",
      queries: [
        {
          expr: `count(${SILENCE} > ${shared("source_silent_after_seconds", "", "source")}) or 0 * count(${SILENCE})`,
          legend: "sources",
        },
      ],
      thresholds: [
        [null, "green"],
        [1, "yellow"],
      ],
    },
    {
      kind: "stat",
      title: "Age of the token",
      description: "Since SERVICE_TOKEN_ISSUED_AT; replace the token every 90 days.",
      runbook: "CrmsyncTokenOld",
      unit: "s",
      width: 4,
      none: "no date set",
      queries: [
        {
          expr: `time() - (${shared("token_issued_timestamp_seconds")} != 0)`,
          legend: "age",
        },
      ],
      thresholds: [
        [null, "green"],
        [80 * 86_400, "yellow"],
        [90 * 86_400, "red"],
      ],
    },
  ],
};
