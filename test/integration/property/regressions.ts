/** Schedules that broke the code once, or would without one of its guards. Every search runs them. */
import type { ScriptedReply } from "./model-service.ts";
import { UNUSABLE, type Change, type Code } from "./records.ts";
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

/** One whole run with one request. */
const attempt = (record: Code, reply: ScriptedReply = "ok"): Action[] =>
  run(record, step(), step(reply), step(), step());
const veryLate: Action = { do: "pass_time", record: "r0", arrives: "very_late" };

/** An update took effect after the newer state had been proven. */
const overwritten: Action[] = [
  change("r0", "upsert", 1, 1),
  ...attempt("r0", "late"),
  veryLate,
  change("r0", "upsert", 2, 2),
  ...attempt("r0"),
];

/** The same, and a third state was proven before the late one arrived. */
const overwrittenLater: Action[] = [
  ...overwritten,
  change("r0", "upsert", 3, 1),
  change("r0", "upsert", 4, 0),
  ...attempt("r0"),
];

/** The same, after a worker had died during its request. */
const overwrittenAfterCrash: Action[] = [
  change("r0", "upsert", 1, 1),
  ...run("r0", step(), step("late"), { do: "crash", worker: 1 }),
  veryLate,
  change("r0", "upsert", 2, 2),
  ...attempt("r0"),
];

/** The same, when staging found that nothing was to be sent. */
const overwrittenUnchanged: Action[] = [
  change("r0", "upsert", 1, 1),
  ...run("r0", step(), step("late"), step("ok", true), step(), step()),
  veryLate,
  change("r0", "delete", 2),
  ...attempt("r0"),
  change("r0", "upsert", 3, 0),
];

/** An update was verified while a newer state was on its way. */
const verifiedMeanwhile: Action[] = [
  ...overwritten,
  { do: "verify", worker: 2 },
  { do: "step", worker: 2, reply: "ok", giveUp: false },
  change("r0", "upsert", 3, 1),
  ...run("r0", step(), step(), { do: "step", worker: 2, reply: "ok", giveUp: false }),
  step("ok"),
  step("ok"),
];

/** A proxy's page, a false 404, and a success that was none. */
const falseReplies: Action[] = [
  change("r0", "delete", 1),
  ...attempt("r0", "foreign_refusal"),
  ...attempt("r0", "false_missing"),
  ...attempt("r0"),
  ...attempt("r0", "empty_before"),
  ...attempt("r0"),
];

/** An update arrived after a newer deletion without a record had been proven: its fields were lost. */
const lateFields: Action[] = [
  change("r0", "delete", 3),
  ...attempt("r0"),
  change("r0", "upsert", 2, 1),
  ...attempt("r0"),
  change("r0", "bare_restore", 4),
  ...attempt("r0"),
];

/** The same before the deletion was sent. */
const lateFieldsBeforeSending: Action[] = [
  change("r0", "bare_restore", 3),
  change("r0", "upsert", 2, 1),
  ...attempt("r0"),
];

/** The fields of a terminated relation waited when it was deleted again: they were dropped. */
const fieldsOfTerminated: Action[] = [
  change("r0", "delete", 1),
  ...attempt("r0"),
  change("r0", "upsert", 2, 1),
  change("r0", "delete", 3),
  ...attempt("r0"),
];

/** One whole run that ends as a dead letter. */
const rejection = (record: Code): Action[] =>
  run(record, step(), step("rejected"), step(), step(), step());
const givenUp = (record: Code): Action[] =>
  run(record, step(), step("forbidden"), step("ok", true), step(), step());
const redriven = (record: Code): Action[] => [
  { do: "redrive", worker: 1, record },
  step(),
  step(),
  step(),
];

/** A dead letter went with its fields when an event without fields restored the record. */
const restoredAfterRejection: Action[] = [
  change("r0", "upsert", 1, 1),
  ...rejection("r0"),
  change("r0", "bare_restore", 2),
];

/** A dead letter of two events kept the one without fields. */
const restoredBeforeRejection: Action[] = [
  change("r0", "upsert", 1, 1),
  change("r0", "bare_restore", 2),
  ...rejection("r0"),
];

/** A dead letter without fields took the place of one with fields. */
const restorationRejected: Action[] = [
  // Two runs: a change without fields reads those of the service first.
  change("r0", "delete", 0),
  ...attempt("r0"),
  ...attempt("r0"),
  change("r0", "upsert", 1, 1),
  ...rejection("r0"),
  change("r0", "bare_restore", 2),
  ...attempt("r0"),
  ...rejection("r0"),
];

/** The same, of a relation that is not there. */
const nothingToRestore: Action[] = [
  change("r0", "upsert", 1, UNUSABLE),
  change("r0", "bare_restore", 2),
  ...attempt("r0"),
];

/** Fields and a deletion were given up together, and an event without fields restored the record. */
const restoredAfterGivenUp: Action[] = [
  change("r0", "delete", 1),
  change("r0", "upsert", 0, 1),
  ...givenUp("r0"),
  change("r0", "bare_restore", 2),
];

/** A dead letter was stored although newer fields had come meanwhile, and stayed. */
const newerFieldsMeanwhile: Action[] = [
  change("r0", "bare_restore", 1),
  change("r0", "upsert", 0, 1),
  ...run("r0", step(), step("rejected"), step()),
  change("r0", "upsert", 0, 2),
  step(),
  change("r0", "bare_restore", 1),
];

/** Fields that came late were lost, because the dead letter had a newer event without fields. */
const unusableAfterGivenUp: Action[] = [
  change("r0", "delete", 2),
  ...givenUp("r0"),
  change("r0", "upsert", 1, UNUSABLE),
];

/** A redrive of fields and a deletion sent the record as active, or lost its fields. */
const redrivenAfterGivenUp: Action[] = [
  change("r0", "upsert", 1, 1),
  change("r0", "delete", 2),
  ...givenUp("r0"),
  ...redriven("r0"),
];

/** Fields that were rejected again after the record had been restored were dropped. */
const rejectedAgain: Action[] = [
  change("r0", "upsert", 1, UNUSABLE),
  change("r0", "bare_restore", 2),
  ...attempt("r0"),
  ...redriven("r0"),
];

/** The same after a second restoration had been carried out. */
const rejectedAgainLater: Action[] = [
  change("r0", "delete", 0),
  ...attempt("r0"),
  ...attempt("r0"),
  change("r0", "upsert", 1, UNUSABLE),
  change("r0", "bare_restore", 2),
  ...attempt("r0"),
  ...rejection("r0"),
  change("r0", "bare_restore", 3),
  ...attempt("r0"),
  ...attempt("r0"),
  ...redriven("r0"),
];

/** A deletion that was accepted took the dead letter away, and was given up. */
const deletionGivenUp: Action[] = [
  change("r0", "upsert", 1, UNUSABLE),
  change("r0", "delete", 2),
  ...givenUp("r0"),
];

/** The fields came after the deletion was carried out: a restoration without fields finds none. */
const restoredAfterLateFields: Action[] = [
  change("r0", "delete", 1),
  change("r0", "upsert", 0, UNUSABLE),
  change("r0", "bare_restore", 1),
  ...attempt("r0"),
];

const WARM = { existsBefore: true, warm: true };

export const REGRESSIONS: [Action[], { existsBefore: boolean; warm: boolean }][] = [
  [olderAfterGivenUp, COLD],
  [nextAfterGivenUp, COLD],
  [listedWhileTaken, { ...COLD, existsBefore: true }],
  [reversed, COLD],
  [overwritten, WARM],
  [overwrittenLater, WARM],
  [overwrittenAfterCrash, WARM],
  [overwrittenUnchanged, WARM],
  [verifiedMeanwhile, WARM],
  [falseReplies, WARM],
  [lateFields, WARM],
  [lateFieldsBeforeSending, WARM],
  [fieldsOfTerminated, WARM],
  [restoredAfterRejection, WARM],
  [restoredBeforeRejection, WARM],
  [restorationRejected, WARM],
  [nothingToRestore, { existsBefore: false, warm: true }],
  [restoredAfterGivenUp, WARM],
  [newerFieldsMeanwhile, WARM],
  [unusableAfterGivenUp, WARM],
  [redrivenAfterGivenUp, WARM],
  [rejectedAgain, WARM],
  [rejectedAgainLater, WARM],
  [deletionGivenUp, WARM],
  [restoredAfterLateFields, { existsBefore: false, warm: true }],
];

/** A worker died after it had sent what was read; then somebody edited it, and it was sent again. */
const readingSentTwice: Action[] = [
  change("r0", "upsert", 1, 1),
  ...run("r0", step(), step(), step(), step()),
  ...run("r0", step(), step(), { do: "crash", worker: 1 }),
  { do: "pass_time", record: "r0", arrives: "yes" },
  { do: "edit", record: "r0", values: { maidenName: "by hand" } },
];

/** The same of schedules in which others maintain some fields. */
export const REGRESSIONS_OF_EDITS = [
  [readingSentTwice, { existsBefore: true, warm: true }],
] satisfies [Action[], { existsBefore: boolean; warm: boolean }][];

/** A worker ends a relation after Redis went back, and the newest event has found nothing to send before that. */
const endedAfterGoingBack: Action[] = [
  { do: "start", worker: 0, record: "r0" },
  {
    do: "event",
    change: { record: "r0", kind: "full_delete", content: 0, time: 0, sequence: 0 },
  },
  { do: "step", worker: 0, reply: "ok", giveUp: false },
  { do: "go_back" },
  { do: "event", change: { record: "r0", kind: "upsert", content: 0, time: 0, sequence: 0 } },
  { do: "step", worker: 0, reply: "ok", giveUp: false },
];

/** Redis went back to the letter that a redrive had read, after its event was rejected again. */
const rejectedAgainBeforeGoingBack: Action[] = [
  { do: "event", change: { record: "r0", kind: "upsert", content: 4, time: 0, sequence: 0 } },
  { do: "copy" },
  { do: "redrive", worker: 0, record: "r0" },
  { do: "step", worker: 0, reply: "ok", giveUp: false },
  { do: "go_back" },
];

export const REGRESSIONS_OF_LOST_WRITES = [
  [endedAfterGoingBack, { existsBefore: true, warm: false }],
  [rejectedAgainBeforeGoingBack, { existsBefore: false, warm: false }],
] satisfies [Action[], { existsBefore: boolean; warm: boolean }][];
