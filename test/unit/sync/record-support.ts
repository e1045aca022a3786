/** Records, and what happens to them one second after the other, for tests of the reducers. */
import type { Now, KnownRecord, LetterMark } from "../../../src/core/sync/record.ts";
import { NO_ORDERS, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import { settle, take, type SettleInput } from "../../../src/core/sync/run.ts";
import { stage, type Made, type StageInput } from "../../../src/core/sync/stage.ts";

export const T = 1_000_000;
export const HOLD_MS = 60_000;
export const VERIFY_MS = 300_000;

/** @param ms after T */
export const at = (ms: number, warm = false): Now => {
  const now = T + ms;
  return { now, nowUs: now * 1000, warm, verifyMs: VERIFY_MS };
};

export const NOTHING: KnownRecord = { row: undefined, staged: undefined, letter: undefined };

export type Step = (known: KnownRecord, now: Now) => KnownRecord;

/** The record after these steps, one each second, the first at T. */
export function after(steps: readonly Step[], known: KnownRecord = NOTHING): KnownRecord {
  return steps.reduce((before, step, index) => step(before, at(index * 1000)), known);
}

/** An event with a record. Orders are digits: texts that sort. */
export const updated = (order: string, change: Partial<StageInput> = {}): StageInput => ({
  crmCode: "1",
  eventKey: `key ${order}`,
  order,
  payload: `payload ${order}`,
  fingerprint: `print ${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: Number(order),
  event: `event ${order}`,
  rank: { first: T, again: (rank) => rank },
  pace: undefined,
  ...change,
});

const NO_RECORD = { payload: undefined, fingerprint: undefined, variant: undefined } as const;

export const deleted = (order: string, change: Partial<StageInput> = {}): StageInput =>
  updated(order, { ...NO_RECORD, status: "terminated", ...change });

export const restored = (order: string): StageInput =>
  updated(order, { ...NO_RECORD, status: "active" });

/** Stages the last of these events after the others. */
export function staging(
  events: readonly StageInput[],
  known: KnownRecord = NOTHING,
  warm = false,
): Made {
  const last = events.at(-1);
  if (last === undefined) throw new Error("no event");
  return stage(after(events.slice(0, -1).map(comes), known), last, at(events.length * 1000, warm));
}

export const comes =
  (event: StageInput): Step =>
  (known, now) =>
    stage(known, event, now).record;

export const isTaken =
  (by = "w1", holdMs = HOLD_MS): Step =>
  (known, now) => {
    const result = take(known, by, holdMs, now);
    if (result.kind !== "taken") throw new Error(`not taken: ${result.kind}`);
    return result.record;
  };

export const isSettled =
  (how: Partial<SettleInput>, by = "w1"): Step =>
  (known, now) =>
    settle(known, by, settlement(how), now).record;

export const settlement = (how: Partial<SettleInput>): SettleInput => ({
  row: "before",
  finished: true,
  found: undefined,
  keptValues: undefined,
  sent: { status: "mapped", payload: "{}", eventOrder: "1", orders: ordersAt("1") },
  ...how,
});

export const ordersAt = (status: string, fields = status): LedgerRow["orders"] => ({
  fields,
  status,
  is: fields === status ? "mapped" : "terminated",
});

export const rowWith = (change: Partial<LedgerRow> = {}): LedgerRow => ({
  exists: true,
  uncertain: false,
  fingerprint: "print 1",
  terminated: false,
  variant: "Person",
  orders: NO_ORDERS,
  provedAt: 1,
  ...change,
});

/** Of the event with this order. */
export const markOf = (order: string, change: Partial<LetterMark> = {}): LetterMark => ({
  order,
  is: "mapped",
  event: order,
  fields: order,
  reason: "invalid",
  ...change,
});
