/** Schedules that broke the code once, or would without one of its guards. Every search runs them. */
import type { ScriptedReply } from "./model-service.ts";
import type { Change, Code } from "./records.ts";
import type { Action } from "./schedules.ts";

const change = (record: Code, kind: Change["kind"], time: number, content = 0): Action => ({
  do: "event",
  change: { record, kind, content, time, sequence: 0 },
});
const step = (reply: ScriptedReply = "ok", giveUp = false): Action => {
  return { do: "step", worker: 1, reply, giveUp };
};
const run = (record: Code, ...then: Action[]): Action[] => [
  { do: "start", worker: 1, record },
  ...then,
];
const COLD = { existsBefore: false, warm: false };

/** A change was given up although the service had applied it; then an older event was sent. */
const olderAfterGivenUp: Action[] = [
  change("r0", "upsert", 1),
  ...run("r0", step(), step("error_after"), step("ok", true), step(), step()),
  change("r0", "upsert", 0),
];

/** A change was given up while its request was under way; the next request did not wait for it. */
const nextAfterGivenUp: Action[] = [
  change("r1", "upsert", 0),
  ...run("r1", step(), step("late"), step("ok", true), step(), step()),
  change("r0", "merge", 0),
  ...run("r1", step()),
];

/** Listed while a worker had taken the record, whose row then disappeared: it counted as absent. */
const listedWhileTaken: Action[] = [
  change("r1", "merge", 0),
  ...run("r0", step(), step("error_before"), { do: "warm" }, step()),
];

/** A change was reversed while it was unknown whether it was applied: that needs a request. */
const reversed: Action[] = [
  change("r0", "upsert", 1),
  ...run("r0", step(), step(), step(), step()),
  change("r0", "upsert", 2, 1),
  ...run("r0", step(), step("error_after"), step(), step()),
  change("r0", "upsert", 3),
];

export const REGRESSIONS: [Action[], { existsBefore: boolean; warm: boolean }][] = [
  [olderAfterGivenUp, COLD],
  [nextAfterGivenUp, COLD],
  [listedWhileTaken, { ...COLD, existsBefore: true }],
  [reversed, COLD],
];
