/** Plans that were asked for on the console: the daemon of the machine that has the file carries them out. */
import { actBy, readApprovals } from "../src/people/approvals/decide.ts";
import { ENTRY_OUTCOMES, type EntryOutcome } from "../src/whole/reconcile/apply-entry.ts";
import { findPlan } from "../src/whole/reconcile/find-plan.ts";
import type { Approval, ApprovalRule } from "../src/core/state/approvals.ts";
import { runInChild, type ChildResult } from "./reconcile-child.ts";
import { countIn, fieldsOf, type Run } from "./reconcile-taken.ts";
import { APPROVAL_ACTS } from "../src/base/config.ts";
import type { Step } from "./chores.ts";
import { holdersIn } from "./heartbeat.ts";
import type { Uses } from "./parts.ts";

/** After a failure that may pass it is tried again, ms. */
const PAUSE_MS = 60_000;

/** Held changes that wait for approval may be replaced by newer events, ms. */
const LOOK_MS = 30_000;

/** An approved plan that is on this machine. */
export interface ApprovedPlan {
  readonly approval: Approval;
  readonly file: string;
}

/** @returns the next one; those that have failed lately come later. Lets asks expire, too. */
export function createApprovedPlans(
  parts: Uses<
    | "approvals"
    | "auditActs"
    | "clock"
    | "config"
    | "deadLetters"
    | "heldTerminations"
    | "history"
    | "keys"
  >,
) {
  const notBefore = new Map<string, number>();
  let lookedAt = -Infinity;
  return {
    async next(): Promise<ApprovedPlan | undefined> {
      // What the others are about is looked at from time to time.
      const isDue = performance.now() > lookedAt + LOOK_MS;
      if (isDue) lookedAt = performance.now();
      for (const approval of await readApprovals(parts, isDue)) {
        const { id, plan, state } = approval;
        if (state !== "approved" || plan?.isByDaemon !== true) continue;
        if (performance.now() < (notBefore.get(id) ?? 0)) continue;
        const file = await findPlan(parts.config, plan);
        if (file !== undefined) return { approval, file };
      }
      return undefined;
    },
    async run({ approval, file }: ApprovedPlan, run: Run): Promise<void> {
      notBefore.set(approval.id, performance.now() + PAUSE_MS);
      await carryOut(approval, file, run);
    },
  };
}

async function carryOut(
  approval: Approval,
  file: string,
  { parts, redisUrl, service, signal }: Run,
): Promise<void> {
  const { approvals, log } = parts;
  const begun = await approvals.change(approval, { state: "approved" });
  // Another process was faster.
  if (begun === undefined || begun.plan === undefined) return;
  log.info({}, "reconcile.began");
  const { accept, hash } = begun.plan;
  const request = {
    input: { plan: file, hash },
    options: { isApplied: true, accept },
    by: actBy(begun),
    redisUrl,
    service: { baseUrl: service.baseUrl, token: service.token() },
  };
  const result = await runInChild(request, signal, countIn(parts));
  if (signal.aborted) return;
  if (result.result === "later" || result.result === "died") {
    await approvals.change(begun, { state: "approved", says: result.error });
    log.warn({ err: new Error(result.error) }, "reconcile.later");
    return;
  }
  await approvals.change(begun, { state: "done", says: saysOf(result) });
  log[result.result === "success" ? "info" : "warn"](fieldsOf(result), "reconcile.ended");
}

function saysOf(result: Exclude<ChildResult, { result: "later" | "died" }>): string {
  if (result.result !== "success") return `not carried out: ${result.error}`;
  const counts = Object.entries(result.applied ?? {}).filter(([, count]) => count > 0);
  return `carried out: ${counts.map(([name, count]) => `${count} ${ENTRY_OUTCOMES[name as EntryOutcome]}`).join(", ") || "nothing"}`;
}

/**
 * Tells commands which acts need a second person, and who holds which token, whatever is in their environment.
 * What all running processes have counts. While none runs, the last rule stays in force.
 */
export function keepApprovals({
  approvals,
  config,
  heartbeats,
}: Uses<"approvals" | "config" | "heartbeats">): Step {
  let isFirst = true;
  return async () => {
    const running = await heartbeats.running();
    const before = isFirst ? await approvals.rule() : undefined;
    const acts = new Set([
      ...(before?.acts ?? []),
      ...config.APPROVALS,
      ...running.flatMap(({ settings }) => String(settings?.["APPROVALS"] ?? "").split(",")),
    ]);
    const holders: ApprovalRule["holders"] = Object.fromEntries(
      [...running.map((one) => one.holders ?? {}), holdersIn(config)].flatMap(Object.entries),
    );
    await approvals.keepRule({ acts: APPROVAL_ACTS.filter((act) => acts.has(act)), holders });
    isFirst = false;
  };
}
