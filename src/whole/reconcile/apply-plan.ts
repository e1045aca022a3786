/**
 * Carries out a plan: feeds its entries into the lane bulk, a few hundred at once, as the quota takes
 * them. After a crash, the next run continues after the last entry that was noted; an entry that is done
 * twice changes nothing.
 */
import { UserError } from "../../base/user-error.ts";
import type { Stores } from "../../operate/status/stores.ts";
import { applyRecord, applyTermination } from "./apply-entry.ts";
import { Feed, type Applied, type FeedView } from "./feed.ts";
import { PlanCount } from "./plan-count.ts";
import { entriesOf, type OpenPlan } from "./plan-file.ts";
import type { PlanningView } from "./plan-record.ts";
import type { SnapshotEvent } from "./read-events.ts";

export interface ApplyView extends FeedView {
  readonly stores: FeedView["stores"] & Pick<Stores, "ledger">;
  /** The records of the snapshot that the plan was made for. */
  readonly events: AsyncIterable<SnapshotEvent>;
  readonly view: PlanningView;
}

export async function applyPlan(plan: OpenPlan, apply: ApplyView): Promise<Applied> {
  const { id, snapshot } = plan.header;
  const progress = await apply.stores.reconciliations.progress(id);
  const skip = progress?.done ?? 0;
  const feed = new Feed(apply, plan, new PlanCount(plan, progress));
  const events = apply.events[Symbol.asyncIterator]();
  let number = 0;
  try {
    for await (const entry of entriesOf(plan)) {
      number += 1;
      if (number <= skip) {
        await feed.recall(entry, number === skip);
        continue;
      }
      await feed.begin();
      if (entry.position === null) {
        await feed.add(entry, await applyTermination(entry, snapshot.asOf, apply.stores));
        continue;
      }
      const event = await eventAt(events, entry.position);
      await feed.add(entry, await applyRecord(entry, event.event, apply.view, apply.stores));
    }
    await feed.end();
    return feed.applied;
  } finally {
    await events.return?.();
  }
}

async function eventAt(
  events: AsyncIterator<SnapshotEvent>,
  position: number,
): Promise<SnapshotEvent> {
  for (;;) {
    const next = await events.next();
    if (next.done === true) {
      throw new UserError("the snapshot has fewer records than the plan was made for");
    }
    if (next.value.position === position) return next.value;
  }
}
