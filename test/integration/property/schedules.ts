/** Arbitrary schedules: which actions happen, in which order, to which record. */
import {
  array,
  boolean,
  constant,
  constantFrom,
  nat,
  oneof,
  record,
  type Arbitrary,
  type WeightedArbitrary,
} from "fast-check";
import type { Arrival, ScriptedReply } from "./model-service.ts";
import { CODES, COMPANY, KINDS, UNUSABLE, type Change, type Code } from "./records.ts";

export type Action =
  | { readonly do: "event"; readonly change: Change }
  /** An earlier event is delivered again. */
  | { readonly do: "repeat"; readonly earlier: number }
  | { readonly do: "start"; readonly worker: number; readonly record: Code }
  | {
      readonly do: "step";
      readonly worker: number;
      readonly reply: ScriptedReply;
      readonly giveUp: boolean;
    }
  | { readonly do: "crash"; readonly worker: number }
  /** A person redrives the record's dead letter. */
  | { readonly do: "redrive"; readonly worker: number; readonly record: Code }
  /** A person corrects the mapping: no content is unusable from now on. */
  | { readonly do: "correct" }
  /** So much time passes that every hold on the record expires. */
  | { readonly do: "pass_time"; readonly record: Code; readonly arrives: Arrival }
  /** A due proof is verified; before that, every very late request arrives. */
  | { readonly do: "verify"; readonly worker: number }
  /** A person releases the record's held termination. */
  | { readonly do: "release"; readonly record: Code }
  /** A copy of Redis is made; Redis goes back to the last one, and the CRM sends again what came since. */
  | { readonly do: "copy" }
  | { readonly do: "go_back" }
  /** The ledger is forgotten, and listed anew, whatever is under way. */
  | { readonly do: "forget" }
  | { readonly do: "list" }
  | { readonly do: "warm" }
  /** Others edit kept fields by hand. */
  | {
      readonly do: "edit";
      readonly record: Code;
      readonly values: Readonly<Record<string, string>>;
    }
  | { readonly do: "foreign"; readonly record: Code; readonly content: number | undefined };

const code = constantFrom(...CODES);
const worker = nat(2);
const content = constantFrom(0, 0, 0, 1, 1, 2, COMPANY);
const change = record({
  record: code,
  kind: constantFrom(...KINDS, "upsert", "upsert", "upsert"),
  content,
  time: nat(6),
  sequence: nat(1),
  writer: constantFrom("contact", "contact", "contact", "lead"),
});

type Weighted = WeightedArbitrary<Action>;

const step = (weight: number, reply: Arbitrary<ScriptedReply>, giveUp: Arbitrary<boolean>) => ({
  weight,
  arbitrary: record({ do: constant("step" as const), worker, reply, giveUp }),
});
const ordinary: Weighted[] = [
  { weight: 4, arbitrary: record({ do: constant("event" as const), change }) },
  { weight: 1, arbitrary: record({ do: constant("repeat" as const), earlier: nat(9) }) },
  { weight: 4, arbitrary: record({ do: constant("start" as const), worker, record: code }) },
  { weight: 1, arbitrary: record({ do: constant("release" as const), record: code }) },
];
const arrival = constantFrom<Arrival[]>("yes", "no", "very_late");
/** The fields of a deleted record need not be usable: they count as none. */
const unusable = change.map((one): Change => ({
  ...one,
  content: UNUSABLE,
  kind: one.kind === "full_delete" ? "delete" : one.kind,
}));
const faults: Weighted[] = [
  { weight: 1, arbitrary: record({ do: constant("event" as const), change: unusable }) },
  { weight: 1, arbitrary: constant({ do: "correct" as const }) },
  { weight: 2, arbitrary: record({ do: constant("redrive" as const), worker, record: code }) },
  { weight: 2, arbitrary: record({ do: constant("crash" as const), worker }) },
  {
    weight: 2,
    arbitrary: record({ do: constant("pass_time" as const), record: code, arrives: arrival }),
  },
  { weight: 1, arbitrary: record({ do: constant("verify" as const), worker }) },
  {
    weight: 1,
    arbitrary: constantFrom(
      { do: "list" as const },
      { do: "warm" as const },
      { do: "forget" as const },
    ),
  },
];
const foreign: Weighted = {
  weight: 1,
  arbitrary: record({
    do: constant("foreign" as const),
    record: code,
    content: constantFrom(undefined, 0, 1),
  }),
};
const anyReply = constantFrom<ScriptedReply[]>(
  "ok",
  "ok",
  "ok",
  "rejected",
  "throttled",
  "denied",
  "unreachable",
  "error_before",
  "error_after",
  "foreign_refusal",
  "false_missing",
  "forbidden",
  "empty",
  "empty",
  "empty_before",
  "late",
  "late",
  "accepted_late",
  "lagging",
  "lagging",
  "guarded",
);

const schedule = (...actions: Weighted[]): Arbitrary<Action[]> =>
  array(oneof(...actions), { minLength: 1, maxLength: 60, size: "max" });

/** No faults; any order of actions. */
export const withoutFaults = schedule(step(8, constant("ok"), constant(false)), ...ordinary);

/** Every reply, late requests, crashes between any two steps. */
export const withFaults = schedule(step(12, anyReply, boolean()), ...ordinary, ...faults);

/** The same, with a Redis that goes back. */
export const withLostWrites = schedule(step(12, anyReply, boolean()), ...ordinary, ...faults, {
  weight: 2,
  arbitrary: constantFrom({ do: "copy" as const }, { do: "go_back" as const }),
});

/** The same, and another program writes to the service too. */
export const withForeignWrites = schedule(
  step(12, anyReply, boolean()),
  ...ordinary,
  ...faults,
  foreign,
);

const byHand = constantFrom<Record<string, string>[]>(
  { maidenName: "by hand" },
  { maidenName: "again" },
  { maidenName: "" },
  { phoneNumber: "+352 by hand" },
  { city: "by hand" },
);

/** Every reply and crash, and others maintain some fields at the service. */
export const withEdits = schedule(step(12, anyReply, boolean()), ...ordinary, ...faults, {
  weight: 2,
  arbitrary: record({ do: constant("edit" as const), record: code, values: byHand }),
});
