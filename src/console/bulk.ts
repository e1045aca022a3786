/** The tab Bulk and reconcile: how far bulk work is, its pause, and what the last comparison found. */
import type { FastifyInstance } from "fastify";
import { pauseBulk, resumeBulk } from "../bulk/pause.ts";
import { counted } from "../ops/counted.ts";
import type { Reconciliation } from "../state/reconciliations.ts";
import { bulkStatusOf, type BulkStatus } from "../status/bulk.ts";
import { duration } from "../status/duration.ts";
import { DRIFT, DRIFT_KINDS } from "../sync/drift.ts";
import { actorOf, formOf, requireOperator, sessionOf } from "./access.ts";
import { html, type Html } from "./html.ts";
import { live, postForm, tabPath } from "./layout.ts";
import { moment, momentOf } from "./moment.ts";
import type { ConsolePorts } from "./ports.ts";
import { isAfterAct, sendBack, sendPage } from "./send-page.ts";
import type { Session } from "./session.ts";

const PATH = tabPath("bulk");

export function serveBulk(app: FastifyInstance, ports: ConsolePorts): void {
  const { stores } = ports;
  app.get(PATH, async (request, reply) => {
    const readings = await (isAfterAct(request) ? ports.freshReadings() : ports.readings());
    const bulk = bulkStatusOf(readings, stores.config.QUOTA_LIVE_RESERVE);
    const main = html`${live(
      "bulk",
      html`<h2>The lane bulk</h2>
        ${bulkView(bulk)}${pauseForm(sessionOf(request), bulk)}`,
    )}
    ${live(
      "reconcile",
      html`<h2>The last comparison</h2>
        ${comparison(readings.reconciliation)}`,
    )}`;
    return sendPage(request, reply, ports, { title: "Bulk and reconcile", tab: "bulk", main });
  });
  app.post(`${PATH}/pause`, { onRequest: requireOperator }, async (request, reply) => {
    const reason = formOf(request).get("reason") ?? undefined;
    const { begun } = await pauseBulk(stores, { by: actorOf(request), reason });
    const says = begun ? "The lane bulk is paused." : "The lane bulk was paused already.";
    return sendBack(request, reply, PATH, says);
  });
  app.post(`${PATH}/resume`, { onRequest: requireOperator }, async (request, reply) => {
    const pause = await resumeBulk(stores, { by: actorOf(request) });
    const says =
      pause === undefined ? "The lane bulk was not paused." : "The lane bulk is resumed.";
    return sendBack(request, reply, PATH, says);
  });
}

function bulkView({
  endsAt,
  paused,
  plan,
  requests,
  reserve,
  sentInLastHour,
  waiting,
}: BulkStatus): Html {
  const left = plan?.left ?? 0;
  return html`<dl>
    <dt>State</dt>
    <dd>
      ${
        paused === null
          ? html`<span class="good">not paused</span>`
          : html`<span class="bad">paused</span> since ${momentOf(paused.since)} by
              ${paused.by}${paused.reason !== null && `: ${paused.reason}`}`
      }
    </dd>
    <dt>Changes that wait</dt>
    <dd>${waiting}</dd>
    <dt>Plan of crmsync reconcile</dt>
    <dd>${plan === null ? "none" : planView(plan)}</dd>
    <dt>Requests needed, at least</dt>
    <dd>${requests}</dd>
    <dt>Sent in the last hour</dt>
    <dd>${sentInLastHour}; ${reserve} requests of the hour are left to live changes</dd>
    <dt>End</dt>
    <dd>
      ${waiting + left === 0 ? "nothing waits" : endsAt === null ? "not known while bulk is paused, its plan is interrupted, or sending is stopped" : momentOf(endsAt)}
    </dd>
  </dl>`;
}

function planView({ entries, left, running }: NonNullable<BulkStatus["plan"]>): Html {
  const done = entries - left;
  return html`<progress
      value="${done}"
      max="${Math.max(1, entries)}"
      aria-label="Entries carried out"
    ></progress>
    ${done} of ${entries} entries are carried
    out${
      left > 0 && !running
        ? html`; <span class="bad">it was interrupted: run the same command again</span>`
        : ""
    }`;
}

function pauseForm(session: Session, { paused, waiting }: BulkStatus): Html | string {
  if (session.role !== "act") return "";
  if (paused !== null) {
    const button = html`<button class="main">
      Resume: send ${counted(waiting, "bulk change")}
    </button>`;
    return postForm(session, `${PATH}/resume`, button);
  }
  return postForm(
    session,
    `${PATH}/pause`,
    html`<p>
        <label for="reason"
          >Reason, for your colleagues and the audit trail (no personal data)</label
        >
        <input id="reason" name="reason" maxlength="200" />
      </p>
      <p>
        <button>Pause the lane bulk: ${counted(waiting, "change waits", "changes wait")}</button>
        <span class="dim">Live changes go on. It is for all processes, and survives restarts.</span>
      </p>`,
  );
}

function comparison(found: Reconciliation | undefined): Html {
  if (found === undefined) {
    return html`<p>
      The CRM and the service were never compared: <code>crmsync reconcile</code>.
    </p>`;
  }
  const { at, drift, equal, records, tookMs } = found;
  const kinds = DRIFT_KINDS.filter((kind) => drift[kind] > 0);
  return html`<p>
      ${moment(at)}: ${counted(records, "record")} of the CRM in ${duration(tookMs)}, ${equal} are
      equal.
    </p>
    ${
      kinds.length === 0
        ? html`<p class="good">No difference is left.</p>`
        : html`<table class="narrow">
            <caption>
              Differences that its plan has not repaired yet
            </caption>
            <thead>
              <tr>
                <th scope="col">Kind</th>
                <th scope="col">Meaning</th>
                <th scope="col" class="number">Records</th>
              </tr>
            </thead>
            <tbody>
              ${kinds.map(
                (kind) =>
                  html`<tr>
                    <th scope="row" data-label="Kind">${kind}</th>
                    <td data-label="Meaning">${DRIFT[kind]}</td>
                    <td data-label="Records" class="number">${drift[kind]}</td>
                  </tr>`,
              )}
            </tbody>
          </table>`
    }`;
}
