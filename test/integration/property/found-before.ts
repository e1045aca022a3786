/** Schedules that once broke the code, or would if a guard were missing. They are played every time. */
import type { Answer } from "./model-service.ts";
import type { Action } from "./schedules.ts";
import type { Change, Code } from "./truth.ts";

const change = (record: Code, kind: Change["kind"], time: number, content = 0): Action => ({
  do: "event",
  change: { record, kind, content, time, sequence: 0 },
});
const step = (answer: Answer = "ok", giveUp = false): Action => {
  return { do: "step", worker: 1, answer, giveUp };
};
const run = (record: Code, ...then: Action[]): Action[] => [
  { do: "start", worker: 1, record },
  ...then,
];
const COLD = { found: false, warm: false };

/** Given up although it was applied: an older event that came then was sent after it. */
const olderAfterGivenUp: Action[] = [
  change("r0", "upsert", 1),
  ...run("r0", step(), step("error_after"), step("ok", true), step(), step()),
  change("r0", "upsert", 0),
];

/** Given up while its request was on the way: the next one of that record did not wait for it. */
const nextAfterGivenUp: Action[] = [
  change("r1", "upsert", 0),
  ...run("r1", step(), step("late"), step("ok", true), step(), step()),
  change("r0", "merge", 0),
  ...run("r1", step()),
];

/** Listed while a worker held the record, whose row then went away: it passed for absent. */
const listedWhileHeld: Action[] = [
  change("r1", "merge", 0),
  ...run("r0", step(), step("error_before"), { do: "warm" }, step()),
];

/** Taken back while nobody knows whether it was applied: that needs a request. */
const takenBack: Action[] = [
  change("r0", "upsert", 1),
  ...run("r0", step(), step(), step(), step()),
  change("r0", "upsert", 2, 1),
  ...run("r0", step(), step("error_after"), step(), step()),
  change("r0", "upsert", 3),
];

export const FOUND_BEFORE: [Action[], { found: boolean; warm: boolean }][] = [
  [olderAfterGivenUp, COLD],
  [nextAfterGivenUp, COLD],
  [listedWhileHeld, { ...COLD, found: true }],
  [takenBack, COLD],
];
