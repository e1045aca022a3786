/** Carries out a plan in this process: only if it may be used, and only one plan at a time. */
import { crmsync } from "../../base/command.ts";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readOne } from "../../base/redis-reading.ts";
import { TryLater, UserError } from "../../base/user-error.ts";
import {
  PLAN_LEASE_MS,
  RENEW_PLAN_MS,
  type Reconciliations,
} from "../../core/state/reconciliations.ts";
import { duration } from "../../operate/status/clock-time.ts";
import type { ActBy } from "../../core/state/audit-acts.ts";
import { applyPlan, type ApplyView } from "./apply-plan.ts";
import type { Applied } from "./feed.ts";
import { hasOlderGoneOn, replaceOlderPlans } from "./interrupted-plans.ts";
import type { OpenSnapshot } from "./open-snapshot.ts";
import { openPlan, planHeader, type OpenPlan, type PlanHeader } from "./plan-file.ts";
import { readEvents } from "./read-events.ts";
import { viewOf, type Session } from "./session.ts";

const HOUR_MS = 3_600_000;

/** For so long after a crash a plan can be continued from the records that the CRM has listed, ms. */
const LIST_KEPT_MS = 7 * 24 * HOUR_MS;
/** How often that time is extended while the plan is carried out, ms. */
const KEEP_LIST_MS = HOUR_MS;

/** How long to wait for the claim, ms: longer than a process that was killed holds it. */
const CLAIM_MS = PLAN_LEASE_MS + 2000;
const CLAIM_CHECK_MS = 500;

export interface CarryOutView extends Pick<ApplyView, "onPause" | "onProgress"> {
  /** A plan that is older is not begun. */
  readonly maxAgeHours: number;
  /** Who begins it, and what the audit trail says beside. */
  readonly by: ActBy;
}

/**
 * The plan that was begun and not finished, of this snapshot or of records that this CRM has listed.
 * @param elsewhere a file outside of the session's folder that may be this plan.
 */
export async function unfinishedPlan(
  session: Session,
  of: { readonly hash: string } | { readonly from: string },
  elsewhere?: string,
): Promise<OpenPlan | undefined> {
  const { dir } = session;
  const names = readdirSync(dir).filter((name) => /^plan-.*\.ndjson$/.test(name));
  const files = names.toSorted().map((name) => join(dir, name));
  if (elsewhere !== undefined && existsSync(elsewhere)) files.push(elsewhere);
  for (const file of files.toReversed()) {
    const header = await planHeader(file);
    if (header === undefined || whyNotOf(header, session) !== undefined) continue;
    const { file: list = "", from, hash } = header.snapshot;
    if ("from" in of ? from !== of.from || !existsSync(list) : hash !== of.hash) continue;
    const progress = await session.stores.reconciliations.progress(header.id);
    if (progress?.state !== "running") continue;
    if ((await laterComparison(session, header)) === undefined) return openPlan(file);
    // A later plan brings what this one lacks, so this one must not be reported as interrupted for ever.
    const { reconciliations, redis } = session.stores;
    if (!(await readOne(redis, reconciliations.isFeeding())))
      await reconciliations.replace(header.id);
  }
  return undefined;
}

/** @throws UserError when the plan may not be used, TryLater when another process carries one out. */
export async function carryOut(
  session: Session,
  snapshot: OpenSnapshot,
  plan: OpenPlan,
  view: CarryOutView,
): Promise<Applied> {
  const requireStillUsable = () => requireUsable(session, snapshot, plan, view.maxAgeHours);
  await requireStillUsable();
  const owner = randomUUID();
  const { reconciliations } = session.stores;
  await claimOrWait(reconciliations, owner);
  const keepClaim = claimKeeper(reconciliations, owner);
  const renewing = setInterval(() => void keepClaim().catch(() => {}), RENEW_PLAN_MS);
  const keepList = () =>
    snapshot.listing?.keepFor(plan.header.id, session.stores.clock.now() + LIST_KEPT_MS);
  keepList();
  const keeping = setInterval(keepList, KEEP_LIST_MS);
  try {
    // The process that had the claim may have carried out this plan, or compared a later snapshot.
    await requireStillUsable();
    const { entries, header } = plan;
    const { snapshot: of } = header;
    const asOf = Date.parse(of.asOf);
    if (of.kind !== undefined) {
      const compared = { kind: of.kind, asOf };
      await replaceOlderPlans(session.stores, compared, header);
    }
    const { endsForeign, foreign } = header;
    const { auditActs } = session.stores;
    const { by, details } = view.by;
    const about = { plan: header.id, snapshot: of.hash, entries, foreign, endsForeign };
    await auditActs.record({ act: "reconcile.apply", by, details: { ...about, ...details } });
    const second = details?.["approvedBy"];
    const both = typeof second === "string" ? `${by}, approved by ${second}` : by;
    await reconciliations.begunBy(header.id, both);
    const applied = await applyPlan(plan, {
      stores: session.stores,
      events: readEvents(snapshot, session.mapping, of, asOf),
      view: await viewOf(session),
      keepClaim: async () => {
        await keepClaim();
        await requireApproved(session);
      },
      onPause: view.onPause,
      onProgress: view.onProgress,
    });
    snapshot.listing?.remove();
    return applied;
  } finally {
    clearInterval(renewing);
    clearInterval(keeping);
    await reconciliations.lease.release(owner);
  }
}

/** A process that was killed holds its claim for some seconds. @throws TryLater when another one works. */
async function claimOrWait(reconciliations: Reconciliations, owner: string): Promise<void> {
  const deadline = performance.now() + CLAIM_MS;
  while (!(await reconciliations.lease.claim(owner))) {
    if (performance.now() > deadline) {
      throw new TryLater("another process carries out a plan now: wait until it ends");
    }
    await sleep(CLAIM_CHECK_MS);
  }
}

/** @returns renews a claim, and throws TryLater for good once it was lost. */
function claimKeeper(reconciliations: Reconciliations, owner: string): () => Promise<void> {
  let claimedAt = performance.now();
  return async () => {
    const now = performance.now();
    if (now - claimedAt > PLAN_LEASE_MS || !(await reconciliations.lease.claim(owner))) {
      throw new TryLater(
        "this process did not run for too long, so another one may carry out a plan now: run the same command again",
      );
    }
    claimedAt = now;
  };
}

/** @throws UserError when the plan is for something else, was used, or is too old. */
export async function requireUsable(
  session: Session,
  { scan, name }: OpenSnapshot,
  plan: OpenPlan,
  maxAgeHours: number,
): Promise<void> {
  const { id, madeAt, snapshot } = plan.header;
  const whyNot = whyNotOf(plan.header, session);
  if (whyNot !== undefined) throw new UserError(`the plan ${plan.file} ${whyNot}: make a new one`);
  await requireApproved(session);
  if (scan.hash !== snapshot.hash) {
    throw new UserError(
      `${name} is not the snapshot that the plan ${plan.file} was made for: make a new plan`,
    );
  }
  const progress = await session.stores.reconciliations.progress(id);
  if (progress?.state === "done") {
    throw new UserError(`the plan ${plan.file} was carried out already: make a new one`);
  }
  if (progress?.state === "cancelled") {
    throw new UserError(`the plan ${plan.file} was cancelled: make a new one`);
  }
  const later = await laterComparison(session, plan.header);
  if (later !== undefined) {
    const end = progress === undefined ? "" : `; ${crmsync`bulk cancel`} ends this one`;
    throw new UserError(
      `the plan ${plan.file} is of a snapshot of ${snapshot.asOf}, and one of ${iso(later)} was compared since: this plan could undo what that one has shown. Carry out the plan of the later one (${crmsync`reconcile --list`}), or compare again${end}`,
    );
  }
  if (progress === undefined && (await hasOlderGoneOn(session.stores, plan.header))) {
    throw new TryLater(
      `a plan of an older snapshot than that of ${plan.file} was still carried out after this one was made: compare again when that one has ended`,
    );
  }
  const ageMs = session.stores.clock.now() - Date.parse(madeAt);
  if (progress === undefined && ageMs > maxAgeHours * HOUR_MS) {
    throw new UserError(
      `the plan ${plan.file} is ${duration(ageMs)} old, and at most ${maxAgeHours} h are allowed (--max-age): make a new one`,
    );
  }
}

/** @throws UserError while another person must approve the mapping. */
async function requireApproved({ config, mapping, stores }: Session): Promise<void> {
  if (await stores.approvals.mayMap(config.APPROVALS, mapping.hash)) return;
  const ask = crmsync`shadow report --mapping ${config.MAPPING} --ask`;
  throw new UserError(
    `the mapping ${mapping.name} is not approved (APPROVALS=mapping), so nothing may be sent with it: ${ask}`,
  );
}

/**
 * A later snapshot of the same kind may have shown that a record is equal by now. That moves no
 * watermark, so nothing would keep an entry of the older plan from undoing it.
 * @returns when the later snapshot was taken, ms
 */
async function laterComparison(
  { stores }: Session,
  { madeAt, snapshot }: PlanHeader,
): Promise<number | undefined> {
  const { asOf, kind } = snapshot;
  if (kind === undefined) return undefined;
  const ofKind = await stores.comparisons.ofKind(kind, stores.clock.now());
  const later = ofKind.filter((one) => one.stop === undefined && one.at > Date.parse(madeAt));
  return later.map((one) => one.asOf).find((at) => at > Date.parse(asOf));
}

const iso = (ms: number): string => new Date(ms).toISOString();

function whyNotOf(header: PlanHeader, session: Session): string | undefined {
  const { baseUrl, config, mappingHash } = session;
  if (header.service !== baseUrl) return `is for the service ${header.service}`;
  if (header.prefix !== config.QUEUE_PREFIX) return `is for QUEUE_PREFIX ${header.prefix}`;
  if (header.mappingHash !== mappingHash) {
    return `was made with another mapping, or before ${header.mapping} was changed`;
  }
  return undefined;
}
