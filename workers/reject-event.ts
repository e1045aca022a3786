/** Events that never reached their records: each ends as a dead letter, in the history and in the metrics. */
import type { CrmEvent } from "../src/event/crm-event.ts";
import { eventKey } from "../src/event/event-order.ts";
import type { TakenThinEvent } from "../src/state/thin-events.ts";
import { createDeadLetter, type DeadLetter, type DeadReason } from "../src/sync/dead-letter.ts";
import { notedProblems, notedText } from "../src/sync/step.ts";
import { reportOutcome } from "./report-outcome.ts";
import type { Runtime } from "./runtime.ts";
import { jsonIn, parseExactly } from "../src/event/exact-json.ts";
import { arrivedAt, type StuckJob } from "../src/event/job-data.ts";
import { identityOf } from "../src/sync/accept-event.ts";

export async function rejectEvent(runtime: Runtime, letter: DeadLetter): Promise<void> {
  const { reason, problems } = letter;
  await runtime.deadLetters.store(letter);
  const event = notedText(jsonIn(letter.event), {});
  if (event !== undefined) {
    void runtime.history.note(event, { kind: "dead", problems: notedProblems(reason, problems) });
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

/** Events whose workers died again and again, and jobs that another client has written wrongly. */
export async function rejectStuckJobs(runtime: Runtime): Promise<void> {
  for await (const job of runtime.inbox.stuck()) {
    const { id, timestamp, fault, failedReason } = job;
    const value = await eventIn(job, runtime);
    const { source, key } = identityOf(value, `job-${id}`);
    const reason: DeadReason = fault === undefined ? "defect" : "bad_event";
    const rule = fault ?? `could not be processed (${failedReason})`;
    const problems = [{ field: "", rule, kind: "an event" }];
    const event = typeof value === "string" ? value : JSON.stringify(value);
    const now = runtime.clock.now();
    const arrival = { at: arrivedAt(timestamp, now), number: Number(id) || 0 };
    const letter = createDeadLetter(
      { eventKey: key },
      { reason, problems, source, event, at: now, arrival },
    );
    await rejectEvent(runtime, letter);
    await runtime.inbox.removeStuck(id);
  }
}

/** The event, opened where that is possible; otherwise the text itself. */
async function eventIn({ data }: StuckJob, { inbox }: Runtime): Promise<unknown> {
  try {
    return await inbox.open(parseExactly(data));
  } catch {
    return data;
  }
}
