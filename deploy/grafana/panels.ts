/**
 * The dashboard's rows from top to bottom, and its annotations. Each panel has a title, queries, a
 * unit, and the section of the runbook for a panel that looks bad. Gauges of shared state are equal
 * in every process: take max or min, never sum. Counters count the work of one process: sum them.
 */
import type { AnnotationSpec, RowSpec } from "./panel-spec.ts";
import { JOB, OWN } from "./promql.ts";
import { ALERTS } from "./rows/alerts.ts";
import { BULK } from "./rows/bulk.ts";
import { CHANGES } from "./rows/changes.ts";
import { FRESHNESS } from "./rows/freshness.ts";
import { HEALTH } from "./rows/health.ts";
import { INTAKE } from "./rows/intake.ts";
import { PROCESS } from "./rows/process.ts";
import { REQUESTS } from "./rows/requests.ts";
import { STOPS } from "./rows/stops.ts";

export const ROWS: readonly RowSpec[] = [
  ALERTS,
  HEALTH,
  STOPS,
  FRESHNESS,
  REQUESTS,
  CHANGES,
  BULK,
  INTAKE,
  PROCESS,
];

export const ANNOTATIONS: readonly AnnotationSpec[] = [
  {
    name: "Restarts",
    expr: `changes(process_start_time_seconds{${OWN}}[2m]) > 0`,
    color: "purple",
    text: "{{instance}} started",
  },
  {
    name: "429s",
    expr: `sum(increase(crmsync_service_requests_total{${JOB}, code="429"}[1m])) > 0`,
    color: "orange",
    text: "the service answered 429",
  },
  {
    name: "Stops",
    expr: `max by (reason) (crmsync_sending_stopped{${JOB}}) == 1`,
    color: "red",
    text: "sending stopped: {{reason}}",
  },
];
