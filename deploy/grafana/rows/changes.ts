/** How changes end, and what was left out of them. */
import type { ChangeOutcome } from "../../../src/core/sync/outcomes.ts";
import type { RowSpec } from "../panel-spec.ts";
import { increase, OWN, shared } from "../promql.ts";

/** Green and blue: sent; grey: needed no request; red: needs a person. */
const OUTCOME_COLORS: Readonly<Record<ChangeOutcome, string>> = {
  created: "green",
  updated: "blue",
  unchanged: "#8e8e8e",
  nothing_to_terminate: "#b3b3b3",
  coalesced: "light-blue",
  superseded: "purple",
  duplicate: "light-purple",
  rejected: "red",
  ignored: "#6e6e6e",
  cancelled: "orange",
};

/** Warnings of values that were not sent. */
const NOT_SENT = ', reason!~"kept_as_is|unknown_field"';

export const CHANGES: RowSpec = {
  title: "Changes",
  height: 8,
  panels: [
    {
      kind: "bars",
      title: "How changes ended",
      description:
        "coalesced, unchanged and superseded changes cost no request; rejected ones are dead letters.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 6,
      none: "no changes",
      queries: [{ expr: `sum by (outcome) (${increase("changes_total")})`, legend: "{{outcome}}" }],
      colors: OUTCOME_COLORS,
    },
    {
      kind: "lines",
      title: "Waiting records",
      description: "Records with a change that is not on the service, by lane.",
      runbook: "CrmsyncQuotaExhausted",
      unit: "short",
      width: 6,
      hidesZeros: true,
      none: "nothing waits, or unknown",
      queries: [{ expr: shared("unsynced_records", "", "lane"), legend: "{{lane}}" }],
    },
    {
      kind: "lines",
      title: "Fields emptied within an hour",
      description:
        "Relations of which updates empty a field, by field; and how many fields lose more than EMPTY_LIMIT allows: further such updates are held.",
      runbook: "CrmsyncFieldsEmptied",
      unit: "short",
      width: 6,
      none: "none",
      queries: [
        {
          expr: `max by (field) (crmsync_emptied_relations{${OWN}})`,
          legend: "{{field}}",
        },
        { expr: shared("unusually_emptied_fields"), legend: "fields beyond the limit" },
      ],
      colors: { "fields beyond the limit": "red" },
    },
    {
      kind: "bars",
      title: "Fields left out",
      description:
        "Values that the mapping did not understand or could not send, by field and reason: the ten most frequent ones. The service keeps what it has in these fields.",
      runbook: "Values were left out",
      unit: "short",
      width: 6,
      none: "none",
      queries: [
        {
          expr: `topk(10, sum by (field, reason) (${increase("mapping_warnings_total", NOT_SENT)}))`,
          legend: "{{field}}: {{reason}}",
        },
      ],
    },
    {
      kind: "lines",
      title: "Share of rejected changes",
      description:
        "Of the changes that intake (mapping and rules) and sync (the service's replies) have checked in the last five minutes.",
      runbook: "CrmsyncChangesRejected",
      unit: "percentunit",
      width: 6,
      none: "no changes",
      queries: [
        {
          expr: `sum by (role) (rate(crmsync_checks_total{${OWN}, result="rejected"}[5m])) / (sum by (role) (rate(crmsync_checks_total{${OWN}}[5m])) > 0)`,
          legend: "{{role}}",
        },
      ],
      shades: "red",
    },
    {
      kind: "bars",
      title: "New dead letters by reason",
      description: "crmsync dead list shows field, rule and remedy of each.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 6,
      none: "none",
      queries: [{ expr: `sum by (reason) (${increase("rejected_total")})`, legend: "{{reason}}" }],
      shades: "red",
    },
    {
      kind: "bars",
      title: "New dead letters by field",
      description: "By the first field that was wrong: the ten most frequent ones.",
      runbook: "CrmsyncDeadLetters",
      unit: "short",
      width: 6,
      none: "none",
      queries: [
        {
          expr: `topk(10, sum by (field) (${increase("rejected_total", ', field!="none"')}))`,
          legend: "{{field}}",
        },
      ],
      shades: "red",
    },
    {
      kind: "lines",
      title: "Dead letters",
      description:
        "All that wait for a person; those that are deleted within three days; and those that were deleted after DEAD_LETTER_DAYS.",
      runbook: "CrmsyncDeadLettersExpiring",
      unit: "short",
      width: 6,
      hidesZeros: true,
      none: "none, or unknown",
      queries: [
        { expr: shared("dead_letters"), legend: "waiting" },
        { expr: shared("dead_letters_expiring"), legend: "deleted soon" },
        { expr: `sum(${increase("dead_letters_expired_total")})`, legend: "deleted" },
      ],
      shades: "red",
    },
  ],
};
