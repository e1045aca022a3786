/** Arbitrary schedules: what happens, in which order, to whom. */
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
import type { Answer } from "./model-service.ts";
import { CODES, COMPANY, KINDS, type Change, type Code } from "./truth.ts";

export type Action =
  | { readonly do: "event"; readonly change: Change }
  /** An event is delivered once more. */
  | { readonly do: "repeat"; readonly earlier: number }
  | { readonly do: "start"; readonly worker: number; readonly record: Code }
  | {
      readonly do: "step";
      readonly worker: number;
      readonly answer: Answer;
      readonly giveUp: boolean;
    }
  | { readonly do: "crash"; readonly worker: number }
  | { readonly do: "pass"; readonly record: Code; readonly arrives: boolean }
  | { readonly do: "list" }
  | { readonly do: "warm" }
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
});

type Weighted = WeightedArbitrary<Action>;

const step = (weight: number, answer: Arbitrary<Answer>, giveUp: Arbitrary<boolean>) => ({
  weight,
  arbitrary: record({ do: constant("step" as const), worker, answer, giveUp }),
});
const calm: Weighted[] = [
  { weight: 4, arbitrary: record({ do: constant("event" as const), change }) },
  { weight: 1, arbitrary: record({ do: constant("repeat" as const), earlier: nat(9) }) },
  { weight: 4, arbitrary: record({ do: constant("start" as const), worker, record: code }) },
];
const troubles: Weighted[] = [
  { weight: 2, arbitrary: record({ do: constant("crash" as const), worker }) },
  {
    weight: 2,
    arbitrary: record({ do: constant("pass" as const), record: code, arrives: boolean() }),
  },
  { weight: 1, arbitrary: constantFrom({ do: "list" as const }, { do: "warm" as const }) },
];
const foreign: Weighted = {
  weight: 1,
  arbitrary: record({
    do: constant("foreign" as const),
    record: code,
    content: constantFrom(undefined, 0, 1),
  }),
};
const anyAnswer = constantFrom<Answer[]>(
  ...(["ok", "ok", "ok", "rejected", "throttled", "denied", "unreachable"] as const),
  ...(["error_before", "error_after", "late", "late"] as const),
);

const schedule = (...actions: Weighted[]): Arbitrary<Action[]> =>
  array(oneof(...actions), { minLength: 1, maxLength: 60, size: "max" });

/** Nothing goes wrong; only the order is anybody's. */
export const peaceful = schedule(step(8, constant("ok"), constant(false)), ...calm);

/** Every answer, late arrivals, crashes between any two steps. */
export const stormy = schedule(step(12, anyAnswer, boolean()), ...calm, ...troubles);

/** Likewise, and somebody else writes to the service too. */
export const disturbed = schedule(step(12, anyAnswer, boolean()), ...calm, ...troubles, foreign);
