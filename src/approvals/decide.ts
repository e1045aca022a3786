/** Asks for the approval of an act, approves and rejects. */
import { UserError } from "../ops/user-error.ts";
import { may, maybeSamePerson, type Person, type Right } from "../people/person.ts";
import type { Act, ActName } from "../state/audit-acts.ts";
import {
  MOST_ASKED,
  type Approval,
  type ApprovalAct,
  type Asked,
  type AskedItem,
  type Who,
  isEnded,
  type AskedPlan,
} from "../state/approvals.ts";
import type { Call } from "../state/store.ts";
import type { Stores } from "../status/stores.ts";
import { askedText, endText } from "../status/approval-text.ts";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { entriesOf, type OpenPlan } from "../reconcile/plan-file.ts";

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

export interface Actor {
  /** As the audit trail names them. */
  readonly by: string;
  /** Undefined: the command was not told. */
  readonly person: Person | undefined;
  /** Marks of all tokens that may be theirs (people/person.ts). */
  readonly marks: readonly string[];
}

const RIGHTS = { act: "ask for an approval", approve: "approve an act" } as const;

/** @throws UserError for a person without a name, or without the right. */
export function requirePerson(
  { by, marks, person }: Actor,
  right: Exclude<Right, "look">,
): Who & { readonly person: Person } {
  if (person === undefined) {
    throw new UserError(
      "this act needs the approval of a second person, so the command must know who you are: set MY_TOKEN or MY_TOKEN_FILE to your own token, one that OPERATOR_TOKEN of the daemon gives a name",
    );
  }
  if (!may(person, right)) {
    throw new UserError(`${person.name ?? "you"} may not ${RIGHTS[right]} (${person.via})`);
  }
  if (person.names.length === 0) {
    throw new UserError(
      `your token has no name, so crmsync cannot tell that you are a second person: give it one in ${person.via} (anna:<token>), and log in again`,
    );
  }
  return { by, names: person.names, marks, person };
}

/** @throws UserError when the one who has asked may be the one who approves. */
function requireOther(asker: Who, actor: Who): void {
  const isSame =
    maybeSamePerson(asker, actor) || asker.marks.some((mark) => actor.marks.includes(mark));
  if (!isSame) return;
  throw new UserError(`${asker.by} has asked for it, so another person must approve it`);
}

/** Why this person may not approve what the other one has asked; undefined: they may. */
export function whyNotOther(asker: Who, actor: Actor): string | undefined {
  try {
    requireOther(asker, requirePerson(actor, "approve"));
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

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
