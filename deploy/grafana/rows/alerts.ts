/** What fires now. */
import type { RowSpec } from "../panel-spec.ts";

/** CrmsyncDown has no tenant when no process answers. */
const ANY_JOB = 'job=~"$job|"';

export const ALERTS: RowSpec = {
  title: "Alerts",
  height: 5,
  panels: [
    {
      kind: "alerts",
      title: "Firing alerts",
      description:
        "Alerts that fire now, critical ones first; each name leads to its section of the runbook.",
      runbook: "The alerts",
      unit: "dateTimeFromNow",
      width: 24,
      none: "no alert fires",
      queries: [
        {
          expr: `1000 * max by (severity, alertname, job, instance) (ALERTS_FOR_STATE{alertname=~"Crmsync.*", ${ANY_JOB}} and ignoring (alertstate) ALERTS{alertstate="firing"})`,
          legend: "{{alertname}}",
        },
      ],
    },
  ],
};
