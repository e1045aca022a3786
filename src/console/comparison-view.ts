/** What reconciliations have found and done, as the tab Imports shows it. */
import { counted } from "../ops/counted.ts";
import { RUN_SOURCES } from "../state/reconcile-runs.ts";
import { duration } from "../status/duration.ts";
import type { Readings } from "../status/readings.ts";
import { earlierDifferences } from "../status/reconcile-findings.ts";
import { DRIFT_KINDS } from "../sync/drift.ts";
import { driftTable } from "./drift-table.ts";
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

const SOURCES = { folder: "RECONCILE_DIR", schedule: "RECONCILE_CRON" } as const;

const RESULTS = {
  success: html`<span class="good">success</span>`,
  stopped: html`<span class="bad">stopped: it asks for a person</span>`,
  failed: html`<span class="bad">failed</span>`,
} as const;

/** The runs that daemons begin by themselves; undefined where they begin none. */
export function runsView(readings: Readings): Html | undefined {
  const { folder, now, reconcileNextAt, reconcileRuns } = readings;
  const runs = RUN_SOURCES.flatMap((source) => {
    const run = reconcileRuns[source];
    return run === undefined ? [] : [{ source, ...run }];
  });
  if (runs.length === 0 && folder === undefined && reconcileNextAt === undefined) return undefined;
  return html`<dl>
    ${runs.map(
      ({ at, result, source, tookMs }) =>
        html`<dt>Last run of ${SOURCES[source]}</dt>
          <dd>${ago(at)}, in ${duration(tookMs)}: ${RESULTS[result]}</dd>`,
    )}
    ${
      reconcileNextAt !== undefined &&
      html`<dt>${reconcileNextAt > now ? "Next scheduled run" : "A scheduled run is due since"}</dt>
        <dd>${moment(reconcileNextAt)}</dd>`
    }
    ${
      folder !== undefined &&
      html`<dt>Exports in RECONCILE_DIR</dt>
        <dd>
          ${counted(folder.waiting, "waits", "wait")},
          ${folder.failed === 0 ? "none failed" : html`<span class="bad">${counted(folder.failed, "failed", "failed")}</span>`}${folder.trouble !== undefined && html`; <span class="bad">${folder.trouble}</span>`}
        </dd>`
    }
  </dl>`;
}
