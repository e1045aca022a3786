/** The approval of a plan of crmsync reconcile: it counts for this file alone, as it was when it was asked for. */
import { hostname } from "node:os";
import { resolve } from "node:path";
import { UserError } from "../ops/user-error.ts";
import { entriesOf, type OpenPlan } from "../reconcile/plan-file.ts";
import { isEnded, type Approval, type AskedPlan } from "../state/approvals.ts";
import type { Stores } from "../status/stores.ts";
import { ask, readApprovals } from "./decide.ts";
import { requirePerson, type Actor } from "./person.ts";

/** What of a plan is asked for. @param isByDaemon the person has seen what the comparison has warned of */
export async function askedPlan(plan: OpenPlan, isByDaemon: boolean): Promise<AskedPlan> {
  const counts = { creates: 0, updates: 0, terminations: 0 };
  for await (const { kind } of entriesOf(plan)) counts[EFFECTS[kind]] += 1;
  const { file, hash, header } = plan;
  const { id, madeAt } = header;
  const place = { host: hostname(), file: resolve(file), at: Date.parse(madeAt) };
  return { id, hash, ...place, ...counts, accept: header.doubts ?? [], isByDaemon };
}

const EFFECTS = {
  missing: "creates",
  different: "updates",
  emptied: "updates",
  terminated: "updates",
  ended: "terminations",
  extra: "terminations",
} as const;

/** The ask for this plan that is open or approved; undefined when there is none. */
export async function approvalOf(
  stores: Stores,
  { hash, header: { id } }: OpenPlan,
): Promise<Approval | undefined> {
  const all = await readApprovals(stores);
  return all.find((one) => one.plan?.id === id && one.plan.hash === hash && !isEnded(one));
}

/**
 * Uses the approval of a plan, or asks for it.
 * @returns `approved`: the plan may be carried out, also once more after it was interrupted
 * @throws UserError for a person who may not do it
 */
export async function useOrAsk(
  stores: Stores,
  plan: OpenPlan,
  actor: Actor,
  reason: string | undefined,
): Promise<Approval> {
  requirePerson(actor, "act");
  const known = await approvalOf(stores, plan);
  if (known === undefined) {
    const asked = await askedPlan(plan, false);
    return ask(stores, actor, { act: "plan", plan: asked, reason }, []);
  }
  if (known.state === "open") return known;
  const begun = await stores.approvals.change(known, { state: "approved" });
  if (begun !== undefined) return begun;
  throw new UserError(
    "the approval of this plan has changed at this moment: run the command again",
  );
}
