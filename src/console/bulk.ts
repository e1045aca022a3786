/** The tab Bulk and reconcile: how far bulk work is, its pause, and what the last comparison found. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { setTimeout as sleep } from "node:timers/promises";
import { cancelBulk, viewCancel, type CancelView } from "../bulk/cancel.ts";
import { pauseBulk, resumeBulk } from "../bulk/pause.ts";
import { counted } from "../ops/counted.ts";
import { may } from "../people/person.ts";
import { UserError } from "../ops/user-error.ts";
import { pastComparisons } from "../reconcile/past-comparisons.ts";
import { bulkStatusOf, type BulkStatus } from "../status/bulk.ts";
import { actorOf, formOf, requireOperator, sessionOf } from "./access.ts";
import { comparison, runsView } from "./comparison-view.ts";
import { html, pathTo, type Html } from "./html.ts";
import { live, postForm, tabPath } from "./layout.ts";
import { momentOf } from "./moment.ts";
import { plansView, servePlan } from "./plans.ts";
import type { ConsolePorts } from "./ports.ts";
import { isAfterAct, queryOf, sendBack, sendPage } from "./send-page.ts";
import type { Session } from "./session.ts";

const PATH = tabPath("bulk");
const CANCEL = `${PATH}/cancel`;

/** Dropping 100,000 changes takes longer than a browser waits; it goes on after the answer, ms. */
const CANCEL_WAIT_MS = 5000;

export function serveBulk(app: FastifyInstance, ports: ConsolePorts): void {
  const { stores } = ports;
  servePlan(app, ports);
  app.get(PATH, async (request, reply) => {
    const readings = await (isAfterAct(request) ? ports.freshReadings() : ports.readings());
    const bulk = bulkStatusOf(readings, stores.config.QUOTA_LIVE_RESERVE);
    const main = html`${live(
      "bulk",
      html`<h2>The lane bulk</h2>
        ${bulkView(bulk)}${pauseForm(sessionOf(request), bulk)}${cancelLink(sessionOf(request), bulk)}`,
    )}
    ${live(
      "reconcile",
      html`<h2>The last comparison</h2>
        ${comparison(readings)}${runsView(readings)}
        <h2>The last plans</h2>
        ${plansView(await pastComparisons(stores))}`,
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
    const { since } = queryOf(request);
    const pause = await resumeBulk(stores, { by: actorOf(request), since: Number(since) });
    const says =
      pause === undefined ? "The lane bulk was not paused." : "The lane bulk is resumed.";
    return sendBack(request, reply, PATH, says);
  });
  app.get(CANCEL, { onRequest: requireOperator }, async (request, reply) => {
    const view = await viewCancel(stores);
    const main = confirmation(sessionOf(request), view);
    return sendPage(request, reply, ports, { title: "Cancel bulk work?", tab: "bulk", main });
  });
  app.post(CANCEL, { onRequest: requireOperator }, async (request, reply) => {
    const shown = shownIn(request);
    const view = await viewCancel(stores);
    if (view.plan?.id !== shown.plan) {
      throw new UserError("another plan is carried out now than the page has shown: look again");
    }
    const cancelling = cancelBulk(stores, { ...view, last: shown.last }, { by: actorOf(request) });
    cancelling.catch(ports.defect);
    const done = await Promise.race([cancelling, sleep(CANCEL_WAIT_MS)]);
    const says =
      done === undefined
        ? "The changes are being dropped: what is left is shown below."
        : `${counted(done.dropped, "change was", "changes were")} dropped${done.busy > 0 ? `; ${done.busy} are under way and end as they would` : ""}.`;
    return sendBack(request, reply, PATH, says);
  });
}

/** What the page of a cancellation has shown. @throws UserError */
function shownIn(request: FastifyRequest): { last: number; plan: string | undefined } {
  const { last = "", plan } = queryOf(request);
  if (!/^\d{1,16}$/.test(last))
    throw new UserError("this address cancels nothing: choose on the page");
  return { last: Number(last), plan };
}

function cancelLink({ person }: Session, { plan, waiting }: BulkStatus): Html | string {
  if (!may(person, "act") || waiting + (plan?.left ?? 0) === 0) return "";
  return html`<p class="acts"><a class="button" href="${CANCEL}">Cancel bulk work…</a></p>`;
}

function confirmation(session: Session, { last, plan, waiting }: CancelView): Html {
  if (waiting === 0 && plan === undefined) return html`<p class="good">Nothing waits in bulk.</p>`;
  const path = pathTo(CANCEL, { last, ...(plan && { plan: plan.id }) });
  const ended =
    plan === undefined
      ? ""
      : html`<p>
          The plan of crmsync reconcile ends: ${plan.left} of ${plan.entries} entries are not
          carried out, and it cannot be used again.
        </p>`;
  return html`<p>
      ${counted(waiting, "change")} of the lane bulk ${waiting === 1 ? "is" : "are"} dropped. Each
      of these records stays at the service as it is, until its next change or the next comparison.
      Live changes, changes under way, held terminations and dead letters stay.
    </p>
    ${ended}
    ${postForm(
      session,
      path,
      html`<button class="main">Drop ${counted(waiting, "change")}</button>
        <a href="${PATH}">Keep them</a>`,
    )}`;
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
  if (!may(session.person, "act")) return "";
  if (paused !== null) {
    const button = html`<button class="main">
      Resume: send ${counted(waiting, "bulk change")}
    </button>`;
    const path = pathTo(`${PATH}/resume`, { since: Date.parse(paused.since) });
    return postForm(session, path, button);
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
