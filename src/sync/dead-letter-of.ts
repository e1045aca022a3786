import type { CrmEvent } from "../event/crm-event.ts";
import { createDeadLetter, type DeadLetter } from "./dead-letter.ts";
import { bringsFields, type TakenState } from "./staged-state.ts";

/** The dead letter of a state that sync cannot bring to the service. */
export function deadLetterOf(
  state: TakenState,
  why: Pick<DeadLetter, "reason" | "problems" | "at">,
): DeadLetter {
  const { crmCode, event, eventOrder, orders, owner, status } = state;
  const { data, source, type } = JSON.parse(event) as Partial<CrmEvent>;
  // The record of a merge is not that of a record which was merged away.
  const hasUnusedRecord = data?.record !== undefined && type !== "crm.record.merged";
  return createDeadLetter(
    { crmCode },
    {
      ...why,
      event,
      source,
      owner,
      order: eventOrder,
      hasFields: bringsFields(state) || hasUnusedRecord,
      newest: { order: orders.status, status },
    },
  );
}
