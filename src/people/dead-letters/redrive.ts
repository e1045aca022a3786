/** Accepts the event of a dead letter again, in the place that it had among those of its record. */
import type { DeadLetters, StoredDeadLetter } from "../../core/state/dead-letters.ts";
import type { StagedStates } from "../../core/state/staged-state.ts";
import { acceptEvent, type AcceptPorts } from "../../core/sync/accept-event.ts";
import type { Accepted } from "../../core/sync/end-record.ts";
import type { CrmEvent } from "../../core/event/crm-event.ts";
import { identityOf } from "../../core/event/event-order.ts";
import { arrivalOf, parsedEvent } from "./stored-event.ts";

export interface RedriveStores {
  readonly deadLetters: Pick<DeadLetters, "dropRead">;
  readonly staged: Pick<StagedStates, "forgetEvent">;
}

export interface Redriven {
  readonly event: CrmEvent | undefined;
  readonly records: readonly Accepted[];
  /**
   * The redrive must be repeated: the tenant's value lists are not known, or another worker has accepted
   * the event at the same time, for another letter: the event of a merge can have several.
   */
  readonly again: boolean;
  /** The letter was dropped, though nothing was staged for its record. */
  readonly dropped: boolean;
}

/**
 * @param now by the clock of Redis, ms
 * @returns undefined for what another client wrote, and is not JSON.
 */
export async function redrive(
  letter: StoredDeadLetter,
  now: number,
  ports: AcceptPorts,
  { deadLetters, staged }: RedriveStores,
): Promise<Redriven | undefined> {
  const value = parsedEvent(letter);
  if (value === undefined) return undefined;
  // The event was noted as seen when it came: without this it would count as a duplicate.
  await staged.forgetEvent(identityOf(value, "").key);
  const { event, records } = await acceptEvent(value, arrivalOf(letter, now), ports);
  const again = records.some(({ result }) => result === "waiting" || result === "duplicate");
  // Staging has dropped it, or keeps it until the record has ended. One that was rejected again has replaced it.
  const isKept = records.some(
    ({ crmCode, result }) =>
      crmCode !== undefined &&
      crmCode === letter.crmCode &&
      (result === "staged" || result === "held" || result === "rejected"),
  );
  const dropped = !again && !isKept && (await deadLetters.dropRead(letter));
  return { event, records, again, dropped };
}
