/** Asks for the approval of an act, approves and rejects. */
import { UserError } from "../ops/user-error.ts";
import { may } from "../people/person.ts";
import type { Act, ActName } from "../state/audit-acts.ts";
import {
  MOST_ASKED,
  type Approval,
  type ApprovalAct,
  type Asked,
  type AskedItem,
} from "../state/approvals.ts";
import type { Call } from "../state/store.ts";
import type { Stores } from "../status/stores.ts";
import { requireOther, requirePerson, type Actor } from "./person.ts";
import { askedText, endText } from "../status/approval-text.ts";

type Ports = Pick<Stores, "approvals" | "auditActs" | "config">;

/** Longest reason, characters. */
const MOST_REASON = 200;

/** By the configuration of this process, or by that of the daemons: a command may have been started without it. */
export async function needsApproval(
  { approvals, config }: Pick<Ports, "approvals" | "config">,
  act: ApprovalAct,
): Promise<boolean> {
  return config.APPROVALS.includes(act) || (await approvals.rule())?.acts.includes(act) === true;
}

/**
 * @param isNeeded false: the act needs no second person, and a daemon is to do it.
 * @throws UserError for a person who may not ask.
 */
export async function ask(
  ports: Ports,
  actor: Actor,
  { reason = "", ...asked }: Asked,
  items: readonly AskedItem[],
  isNeeded = true,
): Promise<Approval> {
  const { by, marks, names } = isNeeded ? requirePerson(actor, "act") : { names: [], ...actor };
  if (items.length > MOST_ASKED) {
    throw new UserError(`one approval is for at most ${MOST_ASKED} records: select fewer of them`);
  }
  const why = reason.trim().slice(0, MOST_REASON);
  const all = { ...asked, ...(why !== "" && { reason: why }) };
  const calls = (id: string) => callsOf(ports, "approval.ask", by, { ...all, id }, items.length);
  const who = { by, names, marks };
  const state = isNeeded ? "open" : "approved";
  const made = await ports.approvals.ask(all, who, items, state, isNeeded ? calls : async () => []);
  if (made !== undefined) return made;
  throw new UserError(
    "too many acts wait for approval or are being carried out: decide about some of them first",
  );
}

/**
 * After a crash, the act can be carried out again.
 * @throws UserError for the one who has asked, and when somebody was faster.
 */
export async function approve(ports: Ports, one: Approval, actor: Actor): Promise<Approval> {
  const { person: _, ...decider } = requirePerson(actor, "approve");
  requireOpen(one);
  requireOther(one.asker, decider);
  const calls = await callsOf(ports, "approval.approve", decider.by, one, one.count);
  return done(await ports.approvals.change(one, { state: "approved", decider }, calls));
}

/** The one who has asked may withdraw it. @throws UserError */
export async function reject(
  ports: Ports,
  one: Approval,
  actor: Actor,
  reason = "",
): Promise<Approval> {
  const right = actor.person && may(actor.person, "approve") ? "approve" : "act";
  const { person: _, ...decider } = requirePerson(actor, right);
  requireOpen(one);
  const says = reason.trim().slice(0, MOST_REASON);
  const about = { ...one, reason: says };
  const calls = await callsOf(ports, "approval.reject", decider.by, about, one.count);
  return done(await ports.approvals.change(one, { state: "rejected", decider, says }, calls));
}

/** Newest first; those whose time is over have expired then. */
export const readApprovals = (ports: Ports): Promise<Approval[]> =>
  ports.approvals.all((one) => callsOf(ports, "approval.expire", "crmsync", one, one.count));

/** @throws UserError when there is none. */
export async function findApproval(ports: Ports, id: string): Promise<Approval> {
  const all = await readApprovals(ports);
  const found = all.find((one) => one.id === id.trim().toUpperCase());
  if (found !== undefined) return found;
  throw new UserError(`there is no approval ${id}: crmsync approvals list has all of them`);
}

/** Who has asked for an act and who has approved it, for the lines of the act itself. */
export const actBy = ({ asker, decider, id, reason }: Approval): Pick<Act, "by" | "details"> => ({
  by: asker.by,
  ...(decider && { details: { approval: id, approvedBy: decider.by, reason } }),
});

function requireOpen(one: Approval): void {
  if (one.state !== "open") throw new UserError(`approval ${one.id} ${endText(one)}`);
}

function done(changed: Approval | undefined): Approval {
  if (changed !== undefined) return changed;
  throw new UserError("somebody has decided about it at the same moment: look again");
}

function callsOf(
  { auditActs }: Ports,
  act: ActName,
  by: string,
  one: Asked & { readonly id: string },
  records: number,
): Promise<Call[]> {
  const { id, plan, reason } = one;
  const about = { approval: id, asked: askedText({ ...one, count: records }) };
  const details = { ...about, ...(plan && { plan: plan.id }), ...(reason && { reason }) };
  return auditActs.callsOf({ act, by, details });
}
