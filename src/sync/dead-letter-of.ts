import { createDeadLetter, type DeadLetter } from "./dead-letter.ts";
import type { TakenState } from "./staged-state.ts";

/** Of a state that sync cannot bring to the service. */
export function deadLetterOf(
  { crmCode, earlierFields, event, eventOrder, order, status }: TakenState,
  why: Pick<DeadLetter, "reason" | "problems" | "at">,
): DeadLetter {
  const { source } = JSON.parse(event) as { source?: string };
  return createDeadLetter(
    { crmCode },
    {
      ...why,
      event,
      source,
      order: eventOrder,
      hasFields: eventOrder === (earlierFields?.order ?? order),
      newest: { order, status },
    },
  );
}
