/** Prints that an act waits for another person. */
import { crmsync } from "../base/command.ts";
import { ask, needsApproval, type Actor } from "../people/approvals/decide.ts";
import { printable } from "../base/printable.ts";
import type { Approval, Asked, AskedItem } from "../core/state/approvals.ts";
import { askedText } from "../operate/status/approval-text.ts";
import { clockTime } from "../operate/status/clock-time.ts";
import type { Stores } from "../operate/status/stores.ts";
import { actorOf } from "./operator.ts";
import { printEither } from "./output.ts";

/** Of the commands whose act may need an approval. */
export const WHY_OPTION = [
  "--why <text>",
  "the reason, for a person who must approve it: no personal data",
] as const;

/** Nothing was done: another person must approve it. */
const EXIT_ASKED = 3;

/**
 * @param items what the act is about, if it must be asked for.
 * @returns whether it was asked for, and so not to be done now.
 */
export async function isAsked(
  stores: Stores,
  asked: Asked,
  items: () => Promise<AskedItem[]>,
  json: boolean | undefined,
): Promise<boolean> {
  if (!(await needsApproval(stores, asked.act))) return false;
  const found = await items();
  // There is nothing to decide.
  if (found.length === 0 && asked.act !== "forget") return false;
  const actor = await actorOf(stores);
  printAsked(await ask(stores, actor, asked, found), actor, json);
  return true;
}

/** @param actor who may have joined the ask of another person, and then may approve it */
export function printAsked(one: Approval, { by }: Actor, json: boolean | undefined): void {
  process.exitCode = EXIT_ASKED;
  const { expiresAt, id } = one;
  const until = clockTime(expiresAt);
  const after =
    one.plan === undefined
      ? ""
      : `; then run ${crmsync`reconcile --apply ${one.plan.file}`} on ${one.plan.host} again`;
  const document = { asked: { id, act: one.act, expiresAt: new Date(expiresAt).toISOString() } };
  const who = one.asker.by === by ? "asked" : `${one.asker.by} has asked for the same`;
  const text = `${who}: approval ${id}, to ${askedText(one)}. Another person approves it on the console, or with ${crmsync`approvals approve ${id}`}${after}. It expires at ${until}`;
  printEither(json, document, printable(text));
}
