/** Makes dead letters of the jobs in the inbox that no worker will end. */
import { parseExactly } from "../src/event/exact-json.ts";
import { arrivedAt } from "../src/event/job-fault.ts";
import type { StuckJob } from "../src/event/stuck-jobs.ts";
import { identityOf } from "../src/sync/accept-event.ts";
import { createDeadLetter, type DeadReason } from "../src/sync/dead-letter.ts";
import { rejectEvent } from "./reject-event.ts";
import type { Runtime } from "./runtime.ts";

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
