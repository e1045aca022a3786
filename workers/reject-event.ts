/** Events that never reached their records: each ends as a dead letter, in the history and in the metrics. */
import type { CrmEvent } from "../src/core/event/crm-event.ts";
import { eventKey, identityOf } from "../src/core/event/event-order.ts";
import type { TakenThinEvent } from "../src/core/state/thin-events.ts";
import {
  createDeadLetter,
  type DeadLetter,
  type DeadReason,
} from "../src/core/sync/dead-letter.ts";
import { notedProblems, notedText } from "../src/core/sync/step.ts";
import { reportOutcome, type OutcomeParts } from "./report-outcome.ts";
import type { Uses } from "./parts.ts";
import { jsonIn, parseExactly } from "../src/core/event/exact-json.ts";
import { arrivedAt, type StuckJob } from "../src/core/event/job-data.ts";

export type RejectParts = OutcomeParts & Uses<"deadLetters" | "history" | "inbox">;

async function rejectEvent(parts: RejectParts, letter: DeadLetter): Promise<void> {
  const { reason, problems } = letter;
  await parts.deadLetters.store(letter);
  const event = notedText(jsonIn(letter.event), {});
  if (event !== undefined) {
    void parts.history.note(event, { kind: "dead", problems: notedProblems(reason, problems) });
  }
  reportOutcome(parts, { outcome: "rejected", reason, problems });
}

/** @param rule why its record is not fetched any more */
export async function rejectThinEvent(
  parts: RejectParts,
  { event, order }: TakenThinEvent,
  reason: DeadReason,
  rule: string,
): Promise<void> {
  const parsedEvent = JSON.parse(event) as CrmEvent;
  const problems = [{ field: "data.record", rule, kind: "an event without its record" }];
  const { source } = parsedEvent;
  await rejectEvent(
    parts,
    createDeadLetter(
      { eventKey: eventKey(parsedEvent) },
      { reason, problems, event, source, order, at: parts.clock.now() },
    ),
  );
}

/** Events whose workers died again and again, and jobs that another client has written wrongly. */
export async function rejectStuckJobs(parts: RejectParts): Promise<void> {
  for await (const job of parts.inbox.stuck()) {
    const { id, timestamp, fault, failedReason } = job;
    const rejection =
      fault === undefined
        ? ({ reason: "defect", rule: `could not be processed (${failedReason})` } as const)
        : ({ reason: "bad_event", rule: fault } as const);
    await rejectJob(parts, { id, timestamp }, await eventIn(job, parts), rejection);
    await parts.inbox.removeStuck(id);
  }
}

/** @param value what the job has, which may be no event */
export async function rejectJob(
  parts: RejectParts,
  {
    id = "",
    timestamp,
  }: { readonly id?: string | undefined; readonly timestamp: number | undefined },
  value: unknown,
  { reason, rule }: { readonly reason: DeadReason; readonly rule: string },
): Promise<void> {
  const { source, key } = identityOf(value, `job-${id}`);
  const problems = [{ field: "", rule, kind: "an event" }];
  const event = typeof value === "string" ? value : JSON.stringify(value);
  const now = parts.clock.now();
  const arrival = { at: arrivedAt(timestamp, now), number: Number(id) || 0 };
  const letter = { reason, problems, source, event, at: now, arrival };
  await rejectEvent(parts, createDeadLetter({ eventKey: key }, letter));
}

/** The event, opened where that is possible; otherwise the text itself. */
async function eventIn({ data }: StuckJob, { inbox }: RejectParts): Promise<unknown> {
  try {
    return await inbox.open(parseExactly(data));
  } catch {
    return data;
  }
}
