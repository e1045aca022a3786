import { createDeadLetter, type DeadLetter } from "./dead-letter.ts";
import { bringsFields, type TakenState } from "./staged-state.ts";

/** Of a state that sync cannot bring to the service. */
export function deadLetterOf(
  state: TakenState,
  why: Pick<DeadLetter, "reason" | "problems" | "at">,
): DeadLetter {
  const { crmCode, event, eventOrder, order, status } = state;
  const { source } = JSON.parse(event) as { source?: string };
  return createDeadLetter(
    { crmCode },
    {
      ...why,
      event,
      source,
      order: eventOrder,
      hasFields: bringsFields(state),
      newest: { order, status },
    },
  );
}
