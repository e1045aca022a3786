/** The processes and Redis. */
import type { RowSpec } from "../panel-spec.ts";
import { increase, JOB, OWN, shared } from "../promql.ts";

export const PROCESS: RowSpec = {
  title: "Process",
  height: 7,
  collapsed: true,
  panels: [
    {
      kind: "lines",
      title: "Processes by role",
      description: "Processes with a recent heartbeat, by role; every role needs one.",
      runbook: "CrmsyncRoleMissing",
      unit: "short",
      width: 6,
      queries: [{ expr: shared("processes", "", "role"), legend: "{{role}}" }],
    },
    {
      kind: "lines",
      title: "Memory",
      description: "Resident memory of each process.",
      runbook: "CrmsyncJobsStalled",
      unit: "bytes",
      width: 6,
      queries: [{ expr: `process_resident_memory_bytes{${OWN}}`, legend: "{{instance}}" }],
    },
    {
      kind: "lines",
      title: "CPU",
      description: "Share of one core that each process uses.",
      runbook: "CrmsyncJobsStalled",
      unit: "percentunit",
      width: 6,
      queries: [
        {
          expr: `rate(process_cpu_seconds_total{${OWN}}[$__rate_interval])`,
          legend: "{{instance}}",
        },
      ],
    },
    {
      kind: "lines",
      title: "Event loop delay, p99",
      description:
        "How long the event loop of a process was blocked; above a second, holds and locks may expire.",
      runbook: "CrmsyncJobsStalled",
      unit: "s",
      width: 6,
      queries: [{ expr: `nodejs_eventloop_lag_p99_seconds{${OWN}}`, legend: "{{instance}}" }],
    },
    {
      kind: "bars",
      title: "Frozen processes",
      description:
        "How long each process did not run although it should have; holds and locks may expire meanwhile.",
      runbook: "CrmsyncProcessFrozen",
      unit: "s",
      width: 6,
      none: "none",
      queries: [
        {
          expr: `sum by (instance) (${increase("frozen_seconds_total")})`,
          legend: "{{instance}}",
        },
      ],
    },
    {
      kind: "bars",
      title: "Stalled jobs",
      description:
        "Jobs that were started again because their process was killed or hung during its work.",
      runbook: "CrmsyncJobsStalled",
      unit: "short",
      width: 6,
      none: "none",
      queries: [{ expr: `sum(${increase("jobs_stalled_total")})`, legend: "jobs" }],
    },
    {
      kind: "lines",
      title: "Ping of Redis",
      description: "How long Redis takes to answer each process; empty while it does not answer.",
      runbook: "CrmsyncRedisSlow",
      unit: "s",
      width: 6,
      none: "no answer",
      queries: [{ expr: `crmsync_redis_ping_seconds{${OWN}}`, legend: "{{instance}}" }],
    },
    {
      kind: "lines",
      title: "Memory of Redis",
      description: "Used, and the limit at which Redis rejects writes (0: none).",
      runbook: "CrmsyncRedisNearlyFull",
      unit: "bytes",
      width: 6,
      queries: [
        { expr: shared("redis_memory_used_bytes"), legend: "used" },
        { expr: shared("redis_memory_limit_bytes"), legend: "limit" },
      ],
    },
    {
      kind: "states",
      title: "Redis",
      description:
        "Whether it answers each process, whether its settings keep every write, and whether its last saves succeeded.",
      runbook: "CrmsyncRedisNotDurable",
      unit: "short",
      width: 12,
      queries: [
        { expr: `min by (instance) (crmsync_redis_up{${OWN}})`, legend: "answers {{instance}}" },
        { expr: `min(crmsync_redis_durable{${JOB}})`, legend: "durable" },
        { expr: `1 - ${shared("redis_saves_failing", "", "kind")}`, legend: "{{kind}}" },
      ],
      values: { "0": ["no", "red"], "1": ["yes", "green"] },
      thresholds: [
        [null, "red"],
        [1, "green"],
      ],
    },
    {
      kind: "lines",
      title: "Audit trail",
      description:
        "Lines that were written (none without AUDIT_LOG), and the age of the oldest act that has no line yet, in seconds.",
      runbook: "CrmsyncAuditFailed",
      unit: "short",
      width: 6,
      none: "none",
      queries: [
        { expr: `sum(${increase("audit_lines_total")})`, legend: "lines" },
        { expr: shared("audit_act_age_seconds"), legend: "act waits" },
      ],
    },
    {
      kind: "lines",
      title: "Notifications",
      description: "Tries to deliver a notification (NOTIFY_URL), by result; none without it.",
      runbook: "CrmsyncNotificationsFailing",
      unit: "short",
      width: 6,
      none: "none",
      queries: [
        { expr: `sum by (result) (${increase("notifications_total")})`, legend: "{{result}}" },
      ],
    },
    {
      kind: "stat",
      title: "Running versions",
      description: "Processes of each version; two versions mean an unfinished roll-out.",
      runbook: "CrmsyncDown",
      unit: "short",
      width: 6,
      none: "none",
      queries: [{ expr: `count by (version) (crmsync_build_info{${OWN}})`, legend: "{{version}}" }],
      thresholds: [[null, "blue"]],
    },
  ],
};
