/** Asks for the approval of an act, approves and rejects. */
import { crmsync } from "../../base/command.ts";
import { UserError } from "../../base/user-error.ts";
import { may, maybeSamePerson, type Person, type Right } from "../../base/person.ts";
import { nameIn, type Act, type ActName } from "../../core/state/audit-acts.ts";
import {
  MOST_ASKED,
  sameText,
  type Approval,
  type ApprovalAct,
  type Asked,
  type AskedItem,
  type Who,
  isEnded,
} from "../../core/state/approvals.ts";
import type { Call } from "../../core/state/store.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { aboutText, askedText, endText } from "../../operate/status/approval-text.ts";
import type { OpenPlan } from "../../whole/reconcile/plan-file.ts";
import { aboutAsked, askedPlan, type AboutPorts } from "./asked-about.ts";

export type Ports = AboutPorts & Pick<Stores, "approvals" | "auditActs" | "config" | "keys">;

/** Longest reason, characters. */
const MOST_REASON = 200;

/** By the configuration of this process, or by that of the daemons: a command may have been started without it. */
export async function needsApproval(
  { approvals, config }: Pick<Ports, "approvals" | "config">,
  act: ApprovalAct,
): Promise<boolean> {
  return approvals.needs(config.APPROVALS, act);
}

/**
 * @param isNeeded false: the act needs no second person, and a daemon is to do it.
 * @throws UserError for a person who may not ask.
 */
export async function ask(
  ports: Stores,
  actor: Actor,
  { reason = "", ...asked }: Asked,
  items: readonly AskedItem[],
  isNeeded = true,
): Promise<Approval> {
  const who: Who = isNeeded
    ? requirePerson(actor, "act")
    : { by: actor.by, marks: actor.marks, names: [] };
  if (items.length > MOST_ASKED) {
    throw new UserError(`one approval is for at most ${MOST_ASKED} records: select fewer of them`);
  }
  const why = reason.trim().slice(0, MOST_REASON);
  const about = await aboutAsked(ports, asked, items);
  const all = { ...asked, about, ...(why !== "" && { reason: why }) };
  const calls = (id: string) => askedCalls(ports, who.by, { ...all, id }, items);
  const state = isNeeded ? "open" : "approved";
  const made = await ports.approvals.ask(all, who, items, state, isNeeded ? calls : async () => []);
  if (made !== undefined) return made;
  throw new UserError(
    "too many acts wait for approval or are being carried out, of yours (20) or of all (100): withdraw or decide some of them first",
  );
}

/**
 * After a crash, the act can be carried out again.
 * @throws UserError for the one who has asked, and when somebody was faster.
 */
export async function approve(ports: Ports, one: Approval, actor: Actor): Promise<Approval> {
  const decider = requirePerson(actor, "approve");
  requireOpen(one);
  requireOther(one.asker, decider);
  const calls = await callsOf(ports, "approval.approve", decider.by, one, one.count);
  const { approvals } = ports;
  if (one.mapping === undefined)
    return done(await approvals.change(one, { state: "approved", decider }, calls));
  // In force with the approval itself: there is nothing that could be left to do.
  const says = "a process that has it maps with it within seconds";
  const next = { state: "done", decider, says } as const;
  calls.push(approvals.approvedMappingCall({ ...one, ...next }));
  return done(await approvals.change(one, next, calls));
}

/** The one who has asked may withdraw it; another person needs the right to approve. @throws UserError */
export async function reject(
  ports: Ports,
  one: Approval,
  actor: Actor,
  reason = "",
): Promise<Approval> {
  const decider = requirePerson(actor, isOwn(one, actor) ? "act" : "approve");
  requireOpen(one);
  const says = reason.trim().slice(0, MOST_REASON);
  const about = { ...one, reason: says };
  const calls = await callsOf(ports, "approval.reject", decider.by, about, one.count);
  return done(await ports.approvals.change(one, { state: "rejected", decider, says }, calls));
}

/** Newest first; those whose time is over have expired then, and what waits is about what is still as it was. @param isWhole false: without the latter */
export async function readApprovals(ports: Ports, isWhole = true): Promise<Approval[]> {
  const all = await ports.approvals.all((one) => endCalls(ports, one));
  if (!isWhole) return all;
  return Promise.all(
    all.map(
      async (one) =>
        (one.state === "open" && CHANGING.has(one.act) && (await withoutReplaced(ports, one))) ||
        one,
    ),
  );
}

/** What these are about may change before it is approved. */
const CHANGING: ReadonlySet<ApprovalAct> = new Set(["held", "drop"]);

const endCalls = (ports: Ports, one: Approval): Promise<Call[]> =>
  callsOf(ports, "approval.expire", "crmsync", one, one.count);

/** A second person must see what is approved: what was decided, or replaced, since is no part of the ask any more. */
async function withoutReplaced(ports: Ports, one: Approval): Promise<Approval | undefined> {
  const { approvals, keys } = ports;
  const left = await approvals.unchanged(one);
  const count = left.length;
  if (count === one.count) return one;
  const gone = one.count - count + (one.gone ?? 0);
  if (count === 0) {
    const says = "all that it was about was decided, or replaced by newer events";
    return approvals.change(
      one,
      { state: "expired", says },
      await endCalls(ports, { ...one, reason: says }),
    );
  }
  const about = await aboutAsked(ports, one, left);
  const same = sameText(one, left);
  return approvals.change(one, { state: "open", count, gone, about, same }, [
    ["SET", keys.approvalItems(one.id), JSON.stringify(left), "KEEPTTL"],
  ]);
}

/** @throws UserError when there is none. */
export async function findApproval(ports: Ports, id: string): Promise<Approval> {
  const all = await readApprovals(ports);
  const found = all.find((one) => one.id === id.trim().toUpperCase());
  if (found !== undefined) return found;
  throw new UserError(`there is no approval ${id}: ${crmsync`approvals list`} has all of them`);
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

type Told = Asked & Pick<Approval, "about" | "id">;

function callsOf(
  { auditActs }: Ports,
  act: ActName,
  by: string,
  one: Told,
  records: number,
  list: object = {},
): Promise<Call[]> {
  const { id, mapping, plan, reason } = one;
  const asked = { asked: askedText({ ...one, count: records }), about: aboutText(one) };
  const more = {
    ...(plan && { plan: plan.id }),
    ...(mapping && { mappingHash: mapping.hash }),
    ...(reason && { reason }),
  };
  return auditActs.callsOf({ act, by, details: { approval: id, ...asked, ...more, ...list } });
}

/** Characters of crmCodes, or ids of dead letters, in one line. */
const MOST_LISTED = 900;

/** The ask with all that it is about, in as many lines as that needs: they stay when the ask has ended. */
async function askedCalls(
  ports: Ports,
  by: string,
  one: Told,
  items: readonly AskedItem[],
): Promise<Call[]> {
  const parts: string[][] = [[]];
  let length = 0;
  for (const [name] of items) {
    length += name.length;
    if (length > MOST_LISTED && length > name.length) {
      parts.push([]);
      length = name.length;
    }
    parts.at(-1)?.push(name);
  }
  const list = one.act === "drop" ? "letters" : "crmCodes";
  const calls = parts.map((part, n) =>
    callsOf(ports, "approval.ask", by, one, items.length, {
      ...(part.length > 0 && { [list]: part }),
      ...(parts.length > 1 && { part: `${n + 1} of ${parts.length}` }),
    }),
  );
  return (await Promise.all(calls)).flat();
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
export function requirePerson({ by, marks, person }: Actor, right: Exclude<Right, "look">): Who {
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
  const { address, names, via } = person;
  return { by, names, marks, isSignedIn: via === "OIDC", address };
}

/** Whether it is surely the one who has asked: no name has ` via ` in it. */
export const isOwn = ({ asker }: Approval, { by }: Pick<Actor, "by">): boolean =>
  nameIn(asker.by) === nameIn(by);

/** @throws UserError when the one who has asked may be the one who approves. */
function requireOther(asker: Who, actor: Who): void {
  const unknown = [asker, actor].find(({ address }) => address === undefined);
  const isOtherWay = (asker.isSignedIn ?? false) !== actor.isSignedIn;
  if (isOtherWay && unknown !== undefined) {
    throw new UserError(
      `crmsync cannot tell whether you are another person than ${asker.by}: no e-mail address of ${unknown.by} is known; let the identity provider send one that is verified (email, email_verified), or give the token one as its name`,
    );
  }
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
