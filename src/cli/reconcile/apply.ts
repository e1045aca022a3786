/** Carries out a plan, with its progress on the terminal. */
import { actBy, needsApproval, approvalOf, useOrAsk } from "../../approvals/decide.ts";
import { printable } from "../../ops/printable.ts";
import { ENTRY_OUTCOMES, type EntryOutcome } from "../../reconcile/apply-entry.ts";
import { carryOut, requireUsable } from "../../reconcile/carry-out.ts";
import type { Applied } from "../../reconcile/feed.ts";
import type { OpenSnapshot } from "../../reconcile/open-snapshot.ts";
import type { OpenPlan } from "../../reconcile/plan-file.ts";
import type { Session } from "../../reconcile/session.ts";
import { APPROVAL_MS, type Approval } from "../../state/approvals.ts";
import type { BulkPause } from "../../state/bulk-changes.ts";
import { clockTime } from "../../status/clock-time.ts";
import { printAsked } from "../asked.ts";
import { actorOf, operatorName } from "../operator.ts";
import { printEither } from "../output.ts";
import type { ReconcileOptions } from "./compare.ts";
import { showBar } from "../bars.ts";

/** How often it is looked whether a daemon runs that sends the changes, ms. */
const DAEMON_CHECK_MS = 5000;

export async function applyIt(
  session: Session,
  snapshot: OpenSnapshot,
  plan: OpenPlan,
  options: ReconcileOptions,
): Promise<void> {
  const { stores } = session;
  const { maxAge } = options;
  const isNeeded = await needsApproval(stores, "plan");
  if (isNeeded)
    await requireUsable(
      session,
      snapshot,
      plan,
      maxAge + askedHours(await approvalOf(stores, plan)),
    );
  const approval = isNeeded
    ? await useOrAsk(stores, plan, await actorOf(stores), options.why)
    : undefined;
  if (approval?.state === "open") {
    snapshot.listing?.keepFor(plan.header.id, approval.expiresAt + APPROVAL_MS);
    return printAsked(approval, options.json);
  }
  const by = approval === undefined ? { by: await operatorName(stores) } : actBy(approval);
  const bar = showBar("carrying out the plan", "changes");
  const watching = watchDaemon(session);
  try {
    const applied = await carryOut(session, snapshot, plan, {
      // Its age counts until it was asked for.
      maxAgeHours: maxAge + askedHours(approval),
      recordAct: (details) =>
        stores.auditActs.record({
          act: "reconcile.apply",
          ...by,
          details: { ...details, ...by.details },
        }),
      onProgress: ({ done, waiting }) => bar.update(done - waiting, plan.entries),
      onPause: (pause) => bar.note(pauseNote(pause)),
    });
    bar.stop();
    if (approval !== undefined)
      await stores.approvals.change(approval, { state: "done", says: "carried out" });
    printApplied(applied, plan, options);
  } finally {
    bar.stop();
    clearInterval(watching);
  }
}

const askedHours = (approval: Approval | undefined): number =>
  approval === undefined ? 0 : (Date.now() - approval.askedAt) / 3_600_000;

function pauseNote(pause: BulkPause | undefined): string {
  if (pause === undefined) return "";
  const { by, reason, since } = pause;
  const why = reason === undefined ? "" : ` (${reason})`;
  return printable(
    `bulk is paused since ${clockTime(since)} by ${by}${why}; waits for crmsync bulk resume`,
  );
}

/** Without a daemon the changes wait: the command says so. */
function watchDaemon({ stores }: Session): NodeJS.Timeout {
  let isTold = false;
  const look = async () => {
    const running = await stores.heartbeats.running();
    const sends = running.some(({ roles }) => roles.includes("sync"));
    if (!sends && !isTold) {
      process.stderr.write("no daemon sends the changes now: they wait until crmsync start runs\n");
    }
    isTold = !sends;
  };
  const lookQuietly = () => void look().catch(() => {});
  lookQuietly();
  return setInterval(lookQuietly, DAEMON_CHECK_MS);
}

function printApplied({ outcomes }: Applied, plan: OpenPlan, { json }: ReconcileOptions): void {
  const counts = (Object.entries(outcomes) as [EntryOutcome, number][])
    .filter(([name, count]) => count > 0 || name === "sent")
    .map(([name, count]) => `${count} ${ENTRY_OUTCOMES[name]}`);
  const document = { applied: outcomes, entries: plan.entries };
  printEither(json, document, `carried out: ${counts.join(", ")}`);
}
