/** The tab Imports: how far imports and plans are, its pause, and what the last comparison found. */
import type { FastifyRequest } from "fastify";
import {
  cancelBulk,
  viewCancel,
  type CancelView,
  pauseBulk,
  resumeBulk,
} from "../../whole/pause-bulk.ts";
import { counted } from "../../base/counted.ts";
import { may } from "../../base/person.ts";
import { UserError } from "../../base/user-error.ts";
import { pastComparisons } from "../../whole/reconcile/past-comparisons.ts";
import { bulkStatusOf, type BulkStatus } from "../../operate/status/bulk.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { confirmForm } from "./approvals.ts";
import { comparison, runsView, plansView, servePlan } from "./plans.ts";
import { barFigure } from "./charts.ts";
import { listLink } from "./record-list.ts";
import { html, pathTo, type Html, type Value, ago, moment, table } from "./html.ts";
import { told } from "./words.ts";
import { duration } from "../../operate/status/clock-time.ts";
import type { Readings } from "../../operate/status/readings.ts";
import { differText } from "../../operate/status/status-text.ts";
import { repairTimes } from "../../records/differences.ts";
import { live, postForm, tabPath, isAfterAct, queryOf, soon, type Pages } from "./pages.ts";

const PATH = tabPath("bulk");
const CANCEL = `${PATH}/cancel`;

const DAY_MS = 86_400_000;

/** Colours of the chart, by for how long a difference is known. */
const AGES = [
  { upToMs: DAY_MS, colour: "written", what: "for less than a day" },
  { upToMs: 7 * DAY_MS, colour: "imports", what: "for less than a week" },
  { upToMs: Number.POSITIVE_INFINITY, colour: "spent", what: "for longer" },
] as const;

/** Since when differences are known, and how long it took until the last ones were gone. */
function differencesView(
  { comparedExports, now }: Readings,
  { all, byExport, byField, byOwner }: Awaited<ReturnType<typeof repairTimes>>,
): Html | string {
  const exports = Object.values(comparedExports);
  const since = exports.flatMap((one) => one.since);
  const ageOf = (at: number) => AGES.find(({ upToMs }) => now - at < upToMs);
  const parts = AGES.map((age) => {
    const own = since.filter(({ at }) => ageOf(at) === age);
    return { ...age, count: own.reduce((sum, { count }) => sum + count, 0) };
  });
  const whole = parts.reduce((sum, { count }) => sum + count, 0);
  if (exports.length === 0) return "";
  return html`<h3>Since when records differ</h3>
    ${
      whole === 0
        ? html`<p class="good">No record differed in the last comparisons.</p>`
        : html`<section class="card">${barFigure(parts, whole)}</section>
            <p>${listLink("The records that differ", "differing")}</p>`
    }
    ${exports.map(
      ({ asOf, name, since: own }) =>
        html`<p>
          ${name}, as of ${moment(asOf)}:
          ${own.length === 0 ? "no difference" : told(differText(own, (ms) => new Date(ms).toISOString()))}.
        </p>`,
    )}
    ${
      all.count > 0 &&
      table({
        caption: "How long it took until differences were gone",
        rows: [
          { name: "all", ...all },
          ...byField.slice(0, MOST_TIMES),
          ...byOwner.slice(0, MOST_TIMES),
          ...byExport.slice(0, MOST_TIMES),
        ],
        columns: [
          { heading: "Field, owner or export", cell: ({ name }) => name },
          { heading: "Differences", isNumber: true, cell: ({ count }) => count },
          { heading: "Half of them within", cell: ({ p50Ms }) => duration(p50Ms) },
          { heading: "99 % within", cell: ({ p99Ms }) => duration(p99Ms) },
        ],
      })
    }`;
}

/** Fields, owners and exports that the table names, each. */
const MOST_TIMES = 8;

export function serveBulk(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  servePlan(pages, ports);
  pages.show(PATH, async (request) => {
    const readings = await (isAfterAct(request) ? ports.freshReadings() : ports.readings());
    const bulk = bulkStatusOf(readings, stores.config.QUOTA_LIVE_RESERVE);
    const main = html`${live(
      "bulk",
      html`${bulkView(bulk)}${pauseForm(sessionOf(request), bulk)}${cancelLink(sessionOf(request), bulk)}`,
    )}
    ${live(
      "reconcile",
      html`<h2>The last comparison</h2>
        ${comparison(readings)}${runsView(readings)}
        ${differencesView(readings, await repairTimes(stores))}
        <h2>The last plans</h2>
        ${plansView(await pastComparisons(stores))}`,
    )}`;
    const heading = stateText(bulk);
    return { title: "Imports", heading, tab: "bulk", main };
  });
  pages.act(`${PATH}/pause`, async (request) => {
    const reason = formOf(request).get("reason") ?? undefined;
    const { begun } = await pauseBulk(stores, { by: actorOf(request), reason });
    const says = begun ? "Imports are paused." : "Imports were paused already.";
    return { path: PATH, says };
  });
  pages.act(`${PATH}/resume`, async (request) => {
    const { since } = queryOf(request);
    const pause = await resumeBulk(stores, { by: actorOf(request), since: Number(since) });
    const says = pause === undefined ? "Imports were not paused." : "Imports are resumed.";
    return { path: PATH, says };
  });
  pages.confirm(CANCEL, async (request) => {
    const view = await viewCancel(stores);
    const main = confirmation(sessionOf(request), view);
    return { title: "Cancel imports?", tab: "bulk", main };
  });
  pages.act(CANCEL, async (request) => {
    const shown = shownIn(request);
    const view = await viewCancel(stores);
    if (view.plan?.id !== shown.plan) {
      throw new UserError("another plan is carried out now than the page has shown: look again");
    }
    const cancelling = cancelBulk(stores, { ...view, last: shown.last }, { by: actorOf(request) });
    cancelling.catch(ports.defect);
    const done = await soon(cancelling);
    const says =
      done === undefined
        ? "The changes are being dropped: what is left is shown below."
        : `${counted(done.dropped, "change was", "changes were")} dropped${done.busy > 0 ? `; ${done.busy} are under way and end as they would` : ""}.`;
    return { path: PATH, says };
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
  return html`<p class="acts"><a class="button drop" href="${CANCEL}">Cancel imports…</a></p>`;
}

function confirmation(session: Session, { last, plan, waiting }: CancelView): Html {
  if (waiting === 0 && plan === undefined) return html`<p class="good">No import waits.</p>`;
  const path = pathTo(CANCEL, { last, plan: plan?.id });
  const ended =
    plan === undefined
      ? ""
      : html`<p>
          The plan of the comparison ends: ${plan.left} of ${plan.entries} entries are not carried
          out, and it cannot be used again.
        </p>`;
  return html`<p>
      ${counted(waiting, "change")} of imports ${waiting === 1 ? "is" : "are"} dropped. Each of
      these records stays at the service as it is, until its next change or the next comparison.
      Live changes, changes under way, held terminations and dead letters stay.
    </p>
    ${ended}
    ${confirmForm(session, path, { does: `Drop ${counted(waiting, "change")}`, back: PATH, buttons: "drop" })}`;
}

function stateText({ endsAt, paused, plan, waiting }: BulkStatus): Value {
  const count = waiting + (plan?.left ?? 0);
  const waits = counted(count, "imported change waits", "imported changes wait");
  if (paused !== null) return count === 0 ? "Imports are paused" : `Imports are paused; ${waits}`;
  if (count === 0) return "No import is under way";
  return endsAt === null
    ? `${waits}; the end is not known now`
    : html`${waits}, sent by ${moment(Date.parse(endsAt))}`;
}

function bulkView({ paused, plan, requests, reserve, sentInLastHour }: BulkStatus): Html {
  return html`${
    paused !== null &&
    html`<p class="notice warning">
      <span class="says"
        >Paused ${ago(paused.since)} by
        ${paused.by}${paused.reason !== null && `: ${paused.reason}`}</span
      >
    </p>`
  }
  ${plan !== null && html`<p>${planView(plan)}</p>`}
  ${
    requests + sentInLastHour > 0 &&
    html`<p class="dim">
      ${requests > 0 && `At least ${counted(requests, "request")} to send; `}${sentInLastHour} sent
      in the last hour. ${reserve} requests of each hour are left to live changes.
    </p>`
  }`;
}

function planView({ entries, left, running }: NonNullable<BulkStatus["plan"]>): Html {
  return html`<progress
      value="${entries - left}"
      max="${Math.max(1, entries)}"
      aria-label="Changes that have come from the plan"
    ></progress>
    ${left === 0 ? "All" : `${left} of the`} ${counted(entries, "change")} of a plan
    ${left === 0 ? "have come" : "are still to come"}${
      left > 0 && !running
        ? html`; <span class="bad">it was interrupted: have it run again</span>`
        : ""
    }`;
}

function pauseForm(session: Session, { paused, waiting }: BulkStatus): Html | string {
  if (!may(session.person, "act")) return "";
  if (paused !== null) {
    const button = html`<button class="main">
      Resume: send ${counted(waiting, "imported change")}
    </button>`;
    const path = pathTo(`${PATH}/resume`, { since: Date.parse(paused.since) });
    return postForm(session, path, button);
  }
  const form = postForm(
    session,
    `${PATH}/pause`,
    html`<p class="acts">
        <label for="reason">Reason, for your colleagues (no personal data)</label>
        <input id="reason" name="reason" maxlength="200" />
        <button>Pause imports</button>
      </p>
      <p class="dim">Live changes go on. All processes pause, also after a restart.</p>`,
  );
  // Who wants to pause what comes finds it, too.
  return waiting > 0
    ? form
    : html`<details id="pause">
        <summary>Pause imports that will come</summary>
        ${form}
      </details>`;
}
