/** Carries out a plan, with its progress on the terminal. */
import { crmsync } from "../../base/command.ts";
import { actBy, needsApproval, approvalOf, useOrAsk } from "../../people/approvals/decide.ts";
import { printable, allPrintable } from "../../base/printable.ts";
import { ENTRY_OUTCOMES, type EntryOutcome } from "../../whole/reconcile/apply-entry.ts";
import { carryOut, requireUsable } from "../../whole/reconcile/carry-out.ts";
import type { Applied } from "../../whole/reconcile/feed.ts";
import type { OpenSnapshot } from "../../whole/reconcile/open-snapshot.ts";
import { type OpenPlan, planHeader } from "../../whole/reconcile/plan-file.ts";
import type { Session } from "../../whole/reconcile/session.ts";
import { APPROVAL_MS, type Approval } from "../../core/state/approvals.ts";
import type { BulkPause } from "../../core/state/bulk-changes.ts";
import { pauseText } from "../../operate/status/bulk.ts";
import { clockTime } from "../../operate/status/clock-time.ts";
import { printAsked } from "../asked.ts";
import type { ActBy } from "../../core/state/audit-acts.ts";
import { actorOf, operatorName, recordAct, withStores } from "../operator.ts";
import { printEither, print, showBar } from "../output.ts";
import type { ReconcileOptions } from "./compare.ts";
import { existsSync } from "node:fs";
import { hostname } from "node:os";
import { counted } from "../../base/counted.ts";
import { readOne } from "../../base/redis-reading.ts";
import { UserError } from "../../base/user-error.ts";
import { findPlan } from "../../whole/reconcile/find-plan.ts";
import {
  endingOf,
  pastComparisons,
  sourceText,
  type PastComparison,
} from "../../whole/reconcile/past-comparisons.ts";
import type { NotedPlan } from "../../core/state/comparisons.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { DRIFT_KINDS, NO_DRIFT } from "../../core/sync/drift.ts";

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
    return printAsked(approval, await actorOf(stores), options.json);
  }
  const by: ActBy = approval === undefined ? { by: await operatorName(stores) } : actBy(approval);
  const bar = showBar("carrying out the plan", "changes");
  const watching = watchDaemon(session);
  try {
    const applied = await carryOut(session, snapshot, plan, {
      // Its age counts until it was asked for.
      maxAgeHours: maxAge + askedHours(approval),
      by,
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

const pauseNote = (pause: BulkPause | undefined): string =>
  pause === undefined
    ? ""
    : printable(`bulk is ${pauseText(pause)}; waits for ${crmsync`bulk resume`}`);

/** Without a daemon the changes wait: the command says so. */
function watchDaemon({ stores }: Session): NodeJS.Timeout {
  let isTold = false;
  const look = async () => {
    const running = await stores.heartbeats.running();
    const sends = running.some(({ roles }) => roles.includes("sync"));
    if (!sends && !isTold) {
      process.stderr.write(
        `no daemon sends the changes now: they wait until ${crmsync`start`} runs\n`,
      );
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

interface Listed extends PastComparison {
  /** Where its plan is; null: not where crmsync writes plans on this machine, or there is none. */
  readonly file: string | null;
}

export async function listComparisons({ json }: { readonly json?: true }): Promise<void> {
  await withStores(async (stores) => {
    const past = await pastComparisons(stores);
    const all: Listed[] = await Promise.all(
      past.map(async (one) => {
        const { at, plan } = one;
        return {
          ...one,
          file: (plan && (await findPlan(stores.config, { id: plan.id, at }))) ?? null,
        };
      }),
    );
    const shown = allPrintable(all);
    printEither(json, shown.map(documentOf), linesOf(shown).join("\n"));
  });
}

const documentOf = ({ at, progress, ...one }: Listed) => ({
  at: new Date(at).toISOString(),
  ...one,
  done: progress?.done ?? 0,
  state: progress?.state ?? null,
  repaired: progress?.repaired ?? {},
});

function linesOf(all: readonly Listed[]): string[] {
  if (all.length === 0) return ["no comparison is remembered"];
  return all.flatMap((one) => {
    const { at, drift, equal, file, plan, records } = one;
    const kinds = DRIFT_KINDS.filter((kind) => (drift[kind] ?? 0) > 0);
    const found = kinds.map((kind) => `, ${drift[kind]} ${kind}`).join("");
    const { at: endedAt, says } = endingOf(one);
    const ended = endedAt === undefined ? says : `${says}, ${clockTime(endedAt)}`;
    return [
      `${clockTime(at)}  ${sourceText(one)}: ${counted(records, "record")}, ${equal} equal${found}`,
      `  ${ended}`,
      ...(plan === undefined ? [] : [`  plan: ${file ?? elsewhere(plan)}`]),
    ];
  });
}

const elsewhere = ({ host }: NotedPlan): string =>
  host === hostname()
    ? "in the file that --plan has named, or removed"
    : `not on this machine; written on ${host}`;

/**
 * Dismisses a comparison: status and alerts no longer report its differences.
 * @param name of the plan's file, its id, or the time of the comparison as --list has it.
 * @throws UserError when it is not known, or its plan was begun.
 */
export async function forgetComparison(stores: Stores, name: string): Promise<void> {
  const { clock, comparisons, reconciliations } = stores;
  const id = existsSync(name) ? (await planHeader(name))?.id : name;
  const all = await comparisons.last(clock.now());
  const found = all.find(({ at, plan }) => plan?.id === id || clockTime(at) === name);
  if (found === undefined) {
    const where = `${crmsync`reconcile --list`} has them`;
    throw new UserError(`${name} is none of the last comparisons: ${where}`);
  }
  const { at, plan } = found;
  if ((plan && (await reconciliations.progress(plan.id)))?.state === "running") {
    throw new UserError(`this plan was begun: ${crmsync`bulk cancel`} ends it`);
  }
  await recordAct(stores, "reconcile.forget", { details: { plan: plan?.id ?? null } });
  await comparisons.dismiss(found);
  const last = await readOne(stores.redis, reconciliations.last());
  if (last?.at === at) {
    await reconciliations.keep({ ...last, drift: NO_DRIFT, leftOutValues: {} });
  }
  print(`the comparison of ${clockTime(at)} is dismissed, and its plan with it`);
}
