/** The last plans of the tab Imports, and the differences that one of them has found. */
import { stat } from "node:fs/promises";
import { hostname } from "node:os";
import { crmsync } from "../../base/command.ts";
import type { FastifyRequest } from "fastify";
import { ask, needsApproval, approvalOf, readApprovals } from "../approvals/decide.ts";
import { askedPlan } from "../approvals/asked-about.ts";
import { counted } from "../../base/counted.ts";
import { UserError } from "../../base/user-error.ts";
import { may } from "../../base/person.ts";
import { findPlan, planPage } from "../../whole/reconcile/find-plan.ts";
import {
  endingOf,
  pastComparisons,
  sourceText,
  type PastComparison,
} from "../../whole/reconcile/past-comparisons.ts";
import { openPlan, type OpenPlan, type PlanEntry } from "../../whole/reconcile/plan-file.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { planText } from "../../operate/status/approval-text.ts";
import { duration } from "../../operate/status/clock-time.ts";
import { DRIFT_KINDS, DRIFT, type DriftKind } from "../../core/sync/drift.ts";
import { sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { askInstead, confirmForm, personIn } from "./approvals.ts";
import { facts, html, pathTo, type Html, ago, table, type Column, moment } from "./html.ts";
import {
  recordCell,
  tabPath,
  PLAN_MS,
  type Page,
  pageNumberOf,
  pager,
  queryOf,
  ROWS,
  type Pages,
} from "./pages.ts";
import type { Readings } from "../../operate/status/readings.ts";
import { earlierDifferences } from "../../operate/status/change-findings.ts";

const BULK = tabPath("bulk");
const PATH = `${BULK}/plan`;
const APPLY = `${PATH}/apply`;

export function servePlan(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  pages.show(PATH, async (request) => {
    const { id = "", hash } = queryOf(request);
    const found = await findPast(stores, id);
    if (found === undefined) return noPlan("This is not one of the last plans.");
    const file =
      (await findPlan(stores.config, { id, at: found.at })) ?? (await askedFile(stores, hash));
    if (file !== undefined && hash !== undefined && (await hashOf(file)) !== hash) {
      return noPlan(
        "This is not the plan that was asked for: its file with this id on this machine is another one. Look at the file that the approval names, or reject it.",
      );
    }
    const main = html`${aboutPlan(found, applyLink(sessionOf(request), found))}${await differences(ports, found, file, pageNumberOf(request), hash)}${back}`;
    const heading = `A plan of ${counted(found.plan?.entries ?? 0, "change")}`;
    return { title: "Plan", heading, tab: "bulk", main };
  });
  serveApply(pages, ports);
}

const noPlan = (says: string): Page => ({
  title: "Plan",
  tab: "bulk",
  main: html`<p class="notice warning">${says}</p>
    ${back}`,
});

const findPast = async (stores: Stores, id: string): Promise<PastComparison | undefined> =>
  (await pastComparisons(stores)).find(({ plan }) => plan?.id === id);

/** A plan that `--plan` wrote elsewhere: the ask names its file, and its hash proves it. */
async function askedFile(stores: Stores, hash: string | undefined): Promise<string | undefined> {
  const { plan } = (await readApprovals(stores)).find((one) => one.plan?.hash === hash) ?? {};
  if (plan?.host !== hostname()) return undefined;
  const isFile = await stat(plan.file).then(
    (found) => found.isFile(),
    () => false,
  );
  return isFile && (await hashOf(plan.file)) === hash ? plan.file : undefined;
}

/** The asker may give any file. The approver must see the same one. */
const hashOf = (file: string): Promise<string | undefined> =>
  openPlan(file).then(
    ({ hash }) => hash,
    () => undefined,
  );

function serveApply(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  pages.confirm(APPLY, async (request) => {
    const plan = await planIn(request, ports);
    const isAsked = await needsApproval(stores, "plan");
    const asked = await askedPlan(plan, true);
    const { accept, hash, id } = asked;
    const main = html`<p>
        Each entry is compared again at its turn, and sent after live changes as the quota allows. A
        running crmsync on this machine does it.
      </p>
      <p><strong>${planText(asked)}.</strong></p>
      ${
        accept.length > 0 &&
        html`<p class="notice warning">
          The comparison has warned of ${accept.join(", ")}: look at these differences first. Who
          goes on accepts them.
        </p>`
      }
      ${confirmForm(sessionOf(request), pathTo(APPLY, { id, hash }), { does: `Carry out ${counted(plan.entries, "change")}`, back: pathTo(PATH, { id }), isAsked })}`;
    return { title: "Carry out the plan?", tab: "bulk", main };
  });
  pages.act(APPLY, async (request) => {
    await stores.stateVersion.require();
    const plan = await planIn(request, ports);
    if (plan.hash !== queryOf(request)["hash"] || (await approvalOf(stores, plan)) !== undefined) {
      throw new UserError("the plan was changed, or asked for already: look again");
    }
    const asked = { act: "plan", plan: await askedPlan(plan, true) } as const;
    if (await needsApproval(stores, "plan")) return askInstead(request, ports, asked, []);
    await ask(stores, personIn(request, ports), asked, [], false);
    const says = "The plan is carried out by a running crmsync on this machine, within seconds.";
    return { path: PATH, says, query: { id: plan.header.id } };
  });
}

/** The plan of the address, if it can still be begun. @throws UserError */
async function planIn(request: FastifyRequest, { stores }: ConsolePorts): Promise<OpenPlan> {
  const { id = "" } = queryOf(request);
  const found = await findPast(stores, id);
  if (found === undefined || !isOpen(found)) {
    throw new UserError(
      "this plan cannot be carried out any more: it was used or dismissed, a newer comparison has superseded it, or it is older than a day. Compare again",
    );
  }
  const file = await findPlan(stores.config, { id, at: found.at });
  if (file === undefined) throw new UserError("this page does not find the file of this plan");
  return openPlan(file);
}

/** Whether a person may begin it: what an approval then takes counts in addition. */
const isOpen = ({ at, dismissed, isSuperseded, plan, progress }: PastComparison): boolean =>
  plan !== undefined &&
  !isSuperseded &&
  progress === undefined &&
  !dismissed &&
  Date.now() - at < PLAN_MS;

const applyLink = ({ person }: Session, one: PastComparison): Html | string =>
  may(person, "act") && isOpen(one)
    ? html`<p class="acts">
        <a class="button main" href="${pathTo(APPLY, { id: one.plan?.id ?? "" })}">Carry it out…</a>
      </p>`
    : "";

const back = html`<p><a href="${BULK}">Imports</a></p>`;

/** Newest first. */
export function plansView(past: readonly PastComparison[]): Html {
  if (past.length === 0) return html`<p class="dim">No comparison is remembered.</p>`;
  return table({
    caption: "What comparisons found, and what became of their plans; the newest first",
    rows: past,
    columns: [
      { heading: "Compared", cell: ({ at }) => ago(at) },
      {
        heading: "File",
        cell: ({ name, ...one }) =>
          html`${name ?? "not known"}
            <div class="dim">
              ${sourceText(one)}${one.by !== undefined && html` by ${one.by}`}
            </div>`,
      },
      { heading: "Differences found", cell: foundText },
      { heading: "Plan", cell: planCell },
    ],
  });
}

function planCell(one: PastComparison): Html {
  const { at, plan, progress } = one;
  const link = isOpen(one) ? "Look at it and decide" : "Its differences";
  const isUnfinished = progress?.state === "running" || progress?.state === "cancelled";
  return html`${endingView(one)}${
    plan !== undefined &&
    html`${
        isUnfinished &&
        html` <progress
          value="${progress.done}"
          max="${Math.max(1, plan.entries)}"
          aria-label="Entries carried out"
        ></progress>`
      }
      ${progress?.by !== undefined && html`<div class="dim">by ${progress.by}</div>`}
      <div>
        <a
          href="${pathTo(PATH, { id: plan.id })}"
          aria-label="${link}: the plan of ${new Date(at).toISOString()}"
          >${link}</a
        >
      </div>`
  }`;
}

const TONES = { good: "good", waits: "warning", past: "dim", bad: "bad" } as const;

function endingView(one: PastComparison): Html {
  const { at, says, tone } = endingOf(one);
  return html`<span class="${TONES[tone]}">${says}</span>${at !== undefined && html`, ${ago(at)}`}`;
}

function foundText({ drift, equal, records }: PastComparison): string {
  const kinds = DRIFT_KINDS.filter((kind) => (drift[kind] ?? 0) > 0);
  const found = kinds.map((kind) => `${drift[kind]} ${kind}`);
  return `${found.length === 0 ? "none" : found.join(", ")}; ${equal} of ${counted(records, "record")} equal`;
}

function aboutPlan(one: PastComparison, actions: Html | string): Html {
  const { at, drift, progress, tookMs } = one;
  const kinds = DRIFT_KINDS.filter((kind) => (drift[kind] ?? 0) > 0);
  return html`${facts({
      File: one.name,
      Compared: html`${ago(at)}, in ${duration(Math.max(1000, tookMs))}, by
      ${sourceText(one)}${one.by !== undefined && html` (${one.by})`}`,
      "What became of it": endingView(one),
      "Carried out by": progress?.by,
    })}
    ${actions}
    ${driftTable({
      caption: "Differences that it has found",
      kinds,
      columns: {
        Found: (kind) => drift[kind] ?? 0,
        Repaired: (kind) => progress?.repaired[kind] ?? 0,
      },
    })}
    <h2>Entries of its plan</h2>`;
}

async function differences(
  ports: ConsolePorts,
  { plan }: PastComparison,
  file: string | undefined,
  number: number,
  hash: string | undefined,
): Promise<Html> {
  const { id = "", entries = 0, host = "" } = plan ?? {};
  const from = (number - 1) * ROWS;
  const page = file === undefined ? undefined : await planPage({ file, entries }, from, ROWS);
  if (page === undefined) {
    return html`<p class="notice warning">
      ${file === undefined ? "This page does not find its file" : "Its file is not as it was written"}.
      It was written on ${host}: into <code>reconcile</code> of <code>DATA_DIR</code> there, beside
      an export in <code>RECONCILE_DIR/done</code>, or where <code>--plan</code> has said. Plans are
      removed after 180 days, those beside exports after 30.
    </p>`;
  }
  return html`${table({
    caption: `${counted(entries, "entry", "entries")}, in the order of the snapshot; the names of fields that differ, never their values`,
    rows: page,
    columns: [
      { heading: "crmCode", cell: ({ code }) => recordCell(ports, code) },
      ...ENTRY_COLUMNS,
    ],
  })}
  ${pager(PATH, { id, hash }, number, Math.ceil(entries / ROWS))}`;
}

const ENTRY_COLUMNS: readonly Column<PlanEntry>[] = [
  { heading: "Kind", cell: ({ kind }) => kind },
  {
    heading: "Fields",
    cell: ({ fields, kind }) => (kind === "missing" ? "all" : fields.join(", ")),
  },
];

export function comparison(readings: Readings): Html {
  const { reconciliation: found } = readings;
  if (found === undefined) {
    return html`<p>
      The CRM and the service were never compared. A comparison (<code>${crmsync`reconcile`}</code>)
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
    "Last run for an export (RECONCILE_DIR)": lastRun(reconcileRuns.folder),
    "Last scheduled run (RECONCILE_CRON)": lastRun(reconcileRuns.schedule),
    "Next scheduled run": !isDue && nextRun,
    "A scheduled run is due since": isDue && nextRun,
    "Exports in the folder (RECONCILE_DIR)":
      folder &&
      html`${counted(folder.waiting, "waits", "wait")},
      ${folder.failed === 0 ? "none failed" : html`<span class="bad">${folder.failed} failed: a result beside each says why</span>`}${folder.trouble !== undefined && html`; <span class="bad">${folder.trouble}</span>`}`,
  });
}

const lastRun = (run: Readings["reconcileRuns"]["folder"]): Html | undefined =>
  run && html`${ago(run.at)}, in ${duration(run.tookMs)}: ${RESULTS[run.result]}`;

interface DriftTable {
  readonly caption: string;
  readonly kinds: readonly DriftKind[];
  /** Heading → number of each kind. */
  readonly columns: Readonly<Record<string, (kind: DriftKind) => number>>;
}

const driftTable = ({ caption, columns, kinds }: DriftTable): Html =>
  table({
    caption,
    rows: kinds,
    columns: [
      { heading: "Kind", cell: (kind) => kind },
      { heading: "Meaning", cell: (kind) => DRIFT[kind] },
      ...Object.entries(columns).map(
        ([heading, cell]) => ({ heading, cell, isNumber: true }) as const,
      ),
    ],
  });
