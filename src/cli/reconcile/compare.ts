/** The dry run: compares, prints, writes the report and the plan. */
import { randomUUID } from "node:crypto";
import { join, relative, resolve } from "node:path";
import { UserError } from "../../ops/user-error.ts";
import { stopFor, terminationsIn, type Stop } from "../../reconcile/guards.ts";
import type { OpenSnapshot } from "../../reconcile/open-snapshot.ts";
import { planEntries, requestsFor } from "../../reconcile/plan-entries.ts";
import { writePlan, type OpenPlan, type PlanHeader } from "../../reconcile/plan-file.ts";
import { readEvents } from "../../reconcile/read-events.ts";
import { writeReport } from "../../reconcile/report.ts";
import { runComparison, type Comparison } from "../../reconcile/run-comparison.ts";
import type { Session } from "../../reconcile/session.ts";
import type { WorkFile } from "../../reconcile/work-file.ts";
import { requestsFor as waitingRequests } from "../../status/backlog.ts";
import { takeReadings } from "../../status/readings.ts";
import { DRIFT_KINDS } from "../../sync/drift.ts";
import type { ReconcileOptions } from "./options.ts";
import { showBar } from "./bars.ts";
import { printComparison, type Outlook } from "./print.ts";

/** So many crmCodes are listed when a plan would terminate too many. */
const MOST_LISTED = 50;

/** @returns the plan; undefined when there is nothing to plan. @throws UserError when a guard stops it. */
export async function compareAll(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<OpenPlan | undefined> {
  const startedAt = Date.now();
  const asOf = options.asOf ?? snapshot.takenAt;
  const showValues = options.showValues === true;
  const comparison = await compareWithBars(session, snapshot, { ...options, asOf, showValues });
  const { summary, work } = comparison;
  try {
    const guard = {
      terminateMissing: options.terminateMissing === true,
      maxTerminate: options.maxTerminate,
      firstLoad: options.firstLoad === true,
    };
    const stop = stopFor(summary, guard);
    if (options.report !== undefined) {
      const values = showValues ? valuesOf(session, snapshot, options, work) : undefined;
      await writeReport(options.report, work, values);
    }
    const outlook = await outlookOf(session, comparison, guard.terminateMissing);
    const plan =
      stop === undefined && outlook.requests > 0
        ? await planFor(session, snapshot, options, outlook.requests, work)
        : undefined;
    const planned = plan && { file: shown(plan.file), entries: plan.entries };
    printComparison(summary, outlook, { stop, planned, ...options, snapshot: snapshot.name });
    if (stop === undefined || stop.why === "terminations") {
      await session.stores.reconciliations.keep({
        at: session.stores.clock.now(),
        tookMs: Date.now() - startedAt,
        records: summary.records,
        equal: summary.counts.equal,
        drift: Object.fromEntries(
          DRIFT_KINDS.map((kind) => [kind, summary.counts[kind]]),
        ) as Record<(typeof DRIFT_KINDS)[number], number>,
      });
    }
    if (stop !== undefined) throw stopped(stop, work, guard.terminateMissing, options);
    return plan;
  } finally {
    work.remove();
  }
}

async function compareWithBars(
  session: Session,
  snapshot: OpenSnapshot,
  options: Parameters<typeof runComparison>[2],
): Promise<Comparison> {
  const reading = showBar("reading the snapshot", "bytes");
  const listing = showBar("listing the service", "relations");
  let bytes = 0;
  const onBytes = (more: number) => reading.update((bytes += more), snapshot.scan.bytes);
  try {
    return await runComparison(session, { ...snapshot, onBytes }, options, {
      listing({ relations }, expected) {
        reading.stop();
        listing.update(relations, expected);
      },
    });
  } finally {
    reading.stop();
    listing.stop();
  }
}

function valuesOf(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
  work: WorkFile,
) {
  const { fingerprintOf, mapping, stores } = session;
  const asOf = (work.progress("asOf") as number | undefined) ?? snapshot.takenAt;
  const view = {
    mapping,
    fingerprintOf,
    lists: stores.tenantLists.current(),
    now: stores.clock.now(),
  };
  return { events: readEvents(snapshot, mapping, options, asOf), view, sealing: stores.sealing };
}

async function outlookOf(
  { stores }: Session,
  { requests: spent, summary, work }: Comparison,
  terminateMissing: boolean,
): Promise<Outlook> {
  const readings = await takeReadings(stores);
  const requests = requestsFor(work, terminateMissing);
  const { live, bulk } = waitingRequests(readings);
  return {
    spent,
    requests,
    terminations: terminationsIn(summary, terminateMissing),
    remaining: readings.quota.remaining,
    limit: readings.quota.limit,
    endsAt: requests === 0 ? undefined : readings.quota.drainedAt({ live, bulk: bulk + requests }),
  };
}

async function planFor(
  { baseUrl, config, dir, mapping, mappingHash, stores }: Session,
  { path, scan }: OpenSnapshot,
  { idFrom, object, plan, terminateMissing }: ReconcileOptions,
  requests: number,
  work: WorkFile,
): Promise<OpenPlan> {
  const now = new Date(stores.clock.now()).toISOString();
  const file = plan ?? join(dir, `plan-${now.replaceAll(":", "-")}.ndjson`);
  const header: PlanHeader = {
    crmsyncPlan: 1,
    id: randomUUID(),
    madeAt: now,
    service: baseUrl,
    prefix: config.QUEUE_PREFIX,
    mapping: mapping.name,
    mappingHash,
    snapshot: {
      ...(path !== undefined && { file: path }),
      hash: scan.hash,
      asOf: new Date((work.progress("asOf") as number | undefined) ?? 0).toISOString(),
      ...(object !== undefined && { object }),
      ...(idFrom !== undefined && { idFrom }),
    },
    requests,
  };
  return writePlan(file, header, planEntries(work, terminateMissing === true));
}

function stopped(
  stop: Stop,
  work: WorkFile,
  terminateMissing: boolean,
  { report }: ReconcileOptions,
): UserError {
  const says = `stopped, and nothing was planned: ${stop.says}`;
  if (stop.why !== "terminations") return new UserError(says);
  const codes: string[] = [];
  for (const { code, kind } of planEntries(work, terminateMissing)) {
    if (kind === "ended" || kind === "extra") codes.push(code);
    if (codes.length === MOST_LISTED) break;
  }
  const more = stop.terminations - codes.length;
  const rest =
    more <= 0
      ? ""
      : `\n  and ${more} more${report === undefined ? " (--report FILE lists all)" : ""}`;
  return new UserError(`${says}\n${codes.map((code) => `  ${code}`).join("\n")}${rest}`);
}

/** A path as a person would type it. */
function shown(file: string): string {
  const near = relative(process.cwd(), resolve(file));
  return near.startsWith("..") ? resolve(file) : near;
}
