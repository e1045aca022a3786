/** What reconciliations have found and done, as the tab Imports shows it. */
import { counted } from "../ops/counted.ts";
import { duration } from "../status/duration.ts";
import type { Readings } from "../status/readings.ts";
import { earlierDifferences } from "../status/reconcile-findings.ts";
import { DRIFT_KINDS } from "../sync/drift.ts";
import { driftTable } from "./drift-table.ts";
import { facts } from "./facts.ts";
import { html, type Html } from "./html.ts";
import { ago, moment } from "./moment.ts";

export function comparison(readings: Readings): Html {
  const { reconciliation: found } = readings;
  if (found === undefined) {
    return html`<p>
      The CRM and the service were never compared. A comparison (<code>crmsync reconcile</code>)
      finds what differs for a request per 5000 relations.
    </p>`;
  }
  const { at, drift, equal, records, tookMs } = found;
  const kinds = DRIFT_KINDS.filter((kind) => drift[kind] > 0);
  return html`<p>
      Last compared ${ago(at)}: ${equal} of ${counted(records, "record")} equal, in
      ${duration(Math.max(1000, tookMs))}.
    </p>
    ${
      kinds.length === 0
        ? html`<p class="good">No difference of this comparison is left.</p>`
        : driftTable({
            caption: "Differences that its plan has not repaired yet",
            kinds,
            columns: { Records: (kind) => drift[kind] },
          })
    }
    ${earlierDifferences(readings).map(
      ({ at: foundAt, relations }) =>
        html`<p class="warning">
          ${counted(relations, "relation differs", "relations differ")} still, as the comparison of
          ${moment(foundAt)} found of another export: its plan was not begun.
        </p>`,
    )}`;
}

const RESULTS = {
  success: html`<span class="good">success</span>`,
  stopped: html`<span class="bad">stopped: it asks for a person</span>`,
  failed: html`<span class="bad">failed</span>`,
} as const;

/** The runs that daemons begin by themselves; undefined where they begin none. */
export function runsView(readings: Readings): Html | undefined {
  const { folder, now, reconcileNextAt, reconcileRuns } = readings;
  const runs = Object.values(reconcileRuns);
  if (runs.length === 0 && folder === undefined && reconcileNextAt === undefined) return undefined;
  const nextRun = reconcileNextAt !== undefined && moment(reconcileNextAt);
  const isDue = reconcileNextAt !== undefined && reconcileNextAt <= now;
  return facts({
    "Last run of RECONCILE_DIR": lastRun(reconcileRuns.folder),
    "Last run of RECONCILE_CRON": lastRun(reconcileRuns.schedule),
    "Next scheduled run": !isDue && nextRun,
    "A scheduled run is due since": isDue && nextRun,
    "Exports in RECONCILE_DIR":
      folder &&
      html`${counted(folder.waiting, "waits", "wait")},
      ${folder.failed === 0 ? "none failed" : html`<span class="bad">${counted(folder.failed, "failed", "failed")}</span>`}${folder.trouble !== undefined && html`; <span class="bad">${folder.trouble}</span>`}`,
  });
}

const lastRun = (run: Readings["reconcileRuns"]["folder"]): Html | undefined =>
  run && html`${ago(run.at)}, in ${duration(run.tookMs)}: ${RESULTS[run.result]}`;
