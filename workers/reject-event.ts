/** Events that never reached their records: each ends as a dead letter, in the history and in the metrics. */
import type { CrmEvent } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-key.ts";
import type { TakenThinEvent } from "../src/state/thin-events.ts";
import { createDeadLetter, type DeadLetter, type DeadReason } from "../src/sync/dead-letter.ts";
import { notedProblems, notedText } from "../src/sync/noted.ts";
import { reportOutcome } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";

export async function rejectEvent(runtime: Runtime, letter: DeadLetter): Promise<void> {
  const { reason, problems } = letter;
  await runtime.deadLetters.store(letter);
  const event = notedText(parsed(letter.event), {});
  if (event !== undefined) {
    runtime.history.note(event, { kind: "dead", problems: notedProblems(reason, problems) });
  }
  reportOutcome(runtime, { outcome: "rejected", reason, problems });
}

/** @param rule why its record is not fetched any more */
export async function rejectThinEvent(
  runtime: Runtime,
  { event, order }: TakenThinEvent,
  reason: DeadReason,
  rule: string,
): Promise<void> {
  const parsedEvent = JSON.parse(event) as CrmEvent;
  const problems = [{ field: "data.record", rule, kind: "an event without its record" }];
  const { source } = parsedEvent;
  await rejectEvent(
    runtime,
    createDeadLetter(
      { eventKey: eventKey(parsedEvent) },
      { reason, problems, event, source, order, at: runtime.clock.now() },
    ),
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
