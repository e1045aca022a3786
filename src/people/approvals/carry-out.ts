/**
 * Carries out what was approved: what is still as it was when it was asked. It may be repeated after a crash: what was
 * done before is not done again. Plans are carried out by crmsync reconcile, or by a daemon (workers/approved-plans.ts).
 */
import { dropLetters } from "../dead-letters/act.ts";
import { erasePerson, findPerson, isEmpty, listOf } from "../forget/erase-traces.ts";
import { dropHeld, releaseHeld } from "../decide-held.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { counted } from "../../base/counted.ts";
import { UserError } from "../../base/user-error.ts";
import type { Approval, AskedItem } from "../../core/state/approvals.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { actBy } from "./decide.ts";

export interface CarryOutPorts {
  readonly stores: Stores;
  /** By which a person's events are found. */
  readonly mapping: () => Promise<Mapping>;
  readonly onWait?: () => void;
}

/** @returns as it is afterwards: still `approved` where something is left to do. */
export async function carryOut(ports: CarryOutPorts, one: Approval): Promise<Approval> {
  const { approvals, stateVersion } = ports.stores;
  await stateVersion.require();
  if (one.state !== "approved" || one.act === "plan" || one.act === "mapping") {
    throw new Error("only an approved act of this process is carried out");
  }
  const items = await approvals.items(one.id);
  const says = await ACTS[one.act](ports, one, items);
  const after = await approvals.change(one, { state: "done", says });
  // Another process was faster with the same.
  return after ?? (await approvals.find(one.id)) ?? { ...one, state: "done", says };
}

const ACTS = { held: decideHeld, drop, forget };

async function decideHeld(
  { stores }: CarryOutPorts,
  one: Approval,
  items: readonly AskedItem[],
): Promise<string> {
  const decide = one.what === "drop" ? dropHeld : releaseHeld;
  const { by, details } = actBy(one);
  let done = 0;
  for (const [crmCode, version] of items) {
    const found = await stores.heldTerminations.find(crmCode);
    if (found !== undefined && found.version === version)
      done += await decide(stores, by, [found], details);
  }
  const did = one.what === "drop" ? "dropped" : "released";
  return `${counted(done, "held change")} ${did}${leftText(one, items.length - done)}`;
}

async function drop(
  { stores }: CarryOutPorts,
  one: Approval,
  items: readonly AskedItem[],
): Promise<string> {
  const { auditActs, deadLetters } = stores;
  const was = new Map(items.map(([id, ...rest]) => [id, rest.join()]));
  async function* same(): AsyncGenerator<StoredDeadLetter> {
    for await (const letter of deadLetters.read([...was.keys()]))
      if (was.get(letter.id) === itemOf(letter).slice(1).join()) yield letter;
  }
  const { by, details } = actBy(one);
  const { dropped } = await dropLetters(stores, same(), (act, about) =>
    auditActs.record({ act, by, ...about, details: { ...about.details, ...details } }),
  );
  return `${counted(dropped, "dead letter")} dropped${leftText(one, items.length - dropped)}`;
}

/** A letter is the same one while no failure was added to it, also if it is sealed with another key. */
export const itemOf = ({ firstAt, id, times }: StoredDeadLetter): AskedItem => [id, firstAt, times];

async function forget(
  { mapping, onWait = () => {}, stores }: CarryOutPorts,
  one: Approval,
  items: readonly AskedItem[],
): Promise<string> {
  const { names = [] } = one;
  if (names.length === 0) return "nothing was erased: the person was erased meanwhile";
  const asked = new Set(items.map(([crmCode]) => crmCode));
  const loaded = await mapping();
  const person = await findPerson(stores, loaded, names);
  // The approver has not seen these relations.
  if (!person.found.crmCodes.every((crmCode) => asked.has(crmCode))) {
    return "nothing was erased: the names lead to other relations by now than those that were asked for; ask again";
  }
  const { erased, left } = await erasePerson(stores, person, actBy(one), onWait);
  if (isEmpty(left)) return `erased ${listOf(erased) || "nothing: nothing was there any more"}`;
  throw new UserError(
    `approval ${one.id} is carried out in part: ${listOf(left.counts)} is left, because it is under way; carry it out again`,
  );
}

const leftText = ({ gone = 0 }: Approval, left: number): string =>
  left + gone === 0
    ? ""
    : `, ${left + gone} left: decided meanwhile, carried out before, or not as it was when it was asked`;
