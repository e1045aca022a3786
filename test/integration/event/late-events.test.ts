/** An older event that is handled after a newer one of its record stays older, whatever made it late. */
import { Queue, Worker, type JobsOptions } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { INBOX_QUEUE } from "../../../src/core/event/inbox.ts";
import { startIntake } from "../../../workers/intake.ts";
import type { Parts } from "../../../workers/parts.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Longer than it takes until the newer event is handled, shorter than until a dead worker is found, ms. */
const AHEAD_MS = 3000;

/** Later than what is added at the same time without it, ms. */
const DELAY_MS = 1500;

const clockAhead = (crmCode: string, firstName: string) =>
  personEvent(crmCode, { firstName }, { time: new Date(Date.now() + AHEAD_MS).toISOString() });

function withoutTime(crmCode: string, firstName: string) {
  const { time: _, ...event } = personEvent(crmCode, { firstName });
  return event;
}

interface Case {
  readonly make: typeof withoutTime;
  /** Of the older event's job. */
  readonly options?: JobsOptions;
  /** Its worker dies. */
  readonly dies?: boolean;
}

const CASES: Record<string, Case> = {
  "clock ahead": { make: clockAhead, dies: true },
  "no time": { make: withoutTime, dies: true },
  "an id of its own": { make: withoutTime, options: { jobId: "own" }, dies: true },
  "a lower priority": { make: withoutTime, options: { jobId: "low", priority: 5 } },
  "a delay": { make: withoutTime, options: { jobId: "later", delay: DELAY_MS } },
};

function setUp() {
  const runtime = newRuntime();
  const { config, redis } = runtime;
  const prefix = config.QUEUE_PREFIX;
  const queue = new Queue(INBOX_QUEUE, { connection: redis, prefix });
  const dead = new Worker(INBOX_QUEUE, null, { connection: redis, prefix });
  onTestFinished(async () => {
    await dead.close();
    await queue.close();
  });
  return { runtime, queue, dead };
}

/** Runs intake until no event is left. */
async function accept(runtime: Parts): Promise<void> {
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const isEmpty = async () => {
    const counts = await runtime.inbox.queue.getJobCounts();
    return Object.values(counts).every((count) => count === 0);
  };
  await waitFor(isEmpty, { what: "all are handled" });
}

test("an older event that is handled after a newer one does not replace it", async () => {
  const { runtime, queue, dead } = setUp();
  const { keys, redis, staged } = runtime;
  const newerOf = (crmCode: string, options: JobsOptions | undefined) =>
    options?.jobId === undefined ? {} : { jobId: `${options.jobId} newer ${crmCode}` };

  for (const [crmCode, { dies, make, options }] of Object.entries(CASES)) {
    if (dies !== true) continue;
    await queue.add("event", make(crmCode, "Older"), options);
    const job = await dead.getNextJob("dead", { block: false });
    await redis.del(`${queue.toKey(job?.id ?? "")}:lock`);
  }
  for (const [crmCode, { dies, make, options }] of Object.entries(CASES)) {
    if (dies !== true) await queue.add("event", make(crmCode, "Older"), options);
  }
  const olderAt = Date.now();
  await waitFor(() => Date.now() > olderAt, { what: "another millisecond" });
  for (const [crmCode, { make, options }] of Object.entries(CASES)) {
    await queue.add("event", make(crmCode, "Newer"), newerOf(crmCode, options));
  }

  await accept(runtime);
  for (const crmCode of Object.keys(CASES)) {
    const taken = await staged.take(crmCode, "me", 0);
    expect.soft(taken.kind === "taken" && taken.state.payload, crmCode).toContain('"Newer"');
  }
  expect(await redis.zcard(keys.line("live"))).toBe(Object.keys(CASES).length);
});

test("a job whose id looks like a high number holds back no event after it", async () => {
  const { runtime, queue } = setUp();
  await queue.add("event", withoutTime("x", "Ada"), { jobId: "0004711000" });
  await accept(runtime);
  const first = runtime.clock.now();
  await waitFor(() => runtime.clock.now() > first, { what: "another millisecond" });
  await queue.add("event", withoutTime("1", "Ada"));
  await accept(runtime);
  const taken = await runtime.staged.take("1", "me", 0);
  expect(taken.kind === "taken" && taken.state.orders.status > new Date(first).toISOString()).toBe(
    true,
  );
});
