/** The chart of a change against its picture, and against the reducers on random ways. */
import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { arrowOf, CHART, modeOf, MODES, type Arrow } from "../../../src/core/sync/chart.ts";
import { storeLetter } from "../../../src/core/sync/letter.ts";
import { cancel, drop, forget, release, restore } from "../../../src/core/sync/person.ts";
import type { KnownRecord, Now } from "../../../src/core/sync/record.ts";
import { settle, take } from "../../../src/core/sync/run.ts";
import { stage } from "../../../src/core/sync/stage.ts";
import {
  at,
  deleted,
  HOLD_MS,
  NOTHING,
  ordersAt,
  restored,
  rowWith,
  settlement,
  updated,
} from "./record-support.ts";

it("is what docs/architecture.md draws, and explains", () => {
  const page = readFileSync("docs/architecture.md", "utf8");
  const drawn = page.matchAll(/^ {2}(\S+) --> (\S+): (.+)$/gm);
  const arrows = CHART.map(({ by, from, to }) => `${from} --> ${to}: ${by.join(", ")}`);
  expect(Array.from(drawn, ([line]) => line.trim())).toEqual(arrows);
  const rows = Object.entries(MODES).map(([mode, words]) => `| ${mode} | ${words} |`);
  expect(rows.filter((row) => !page.includes(row))).toEqual([]);
});

type By = Arrow["by"][number];
/** Undefined: the reducer leaves the record as it is. */
type Reduce = (known: KnownRecord, now: Now) => KnownRecord | undefined;
interface Step {
  readonly by: By;
  readonly reduce: Reduce;
}

const some = fc.constantFrom;
const order = some(...Array.from("123456789"));
const WEIGHTS: Partial<Record<By, number>> = { stage: 8, take: 6, settle: 8 };
const stepsOf = <T>(by: By, input: fc.Arbitrary<T>, reduce: (input: T) => Reduce) => ({
  weight: WEIGHTS[by] ?? 1,
  arbitrary: input.map((one): Step => ({ by, reduce: reduce(one) })),
});

const event = fc.record({
  kind: some(updated, deleted, deleted, restored),
  order,
  more: fc.record({ lane: some("live", "bulk"), writer: some("a", "a", "b") }),
  fingerprint: some("print 1", "print 2"),
});
const reply = fc.record({
  by: some("w1", "w1", "w1", "w2"),
  exists: fc.boolean(),
  row: some("before", "unknown", "proven", "proven"),
  finished: fc.boolean(),
  dead: fc.boolean(),
  held: fc.boolean(),
  openMs: some(undefined, undefined, 500),
  why: some(undefined, "stored", "accepted"),
});

const step = fc.oneof(
  stepsOf("stage", event, ({ fingerprint, kind, more, order }) => (known, now) => {
    const made = kind(order);
    const print = made.payload === undefined ? undefined : fingerprint;
    return stage(known, { ...made, ...more, fingerprint: print }, now).record;
  }),
  stepsOf("take", some("w1", "w1", "w1", "w2"), (by) => (known, now) => {
    const result = take(known, by, HOLD_MS, now);
    return result.kind === "taken" ? result.record : undefined;
  }),
  stepsOf("settle", reply, ({ by, dead, exists, finished, held, openMs, row, why }) => {
    return (known, now) => {
      const fingerprint = exists ? "print 1" : undefined;
      const orders = known.row?.orders ?? ordersAt("1");
      const isDead = finished && dead && known.staged?.taken?.by === by;
      const how = {
        row: row === "proven" ? rowWith({ exists, fingerprint, orders }) : row,
        finished,
        openMs,
        dead: isDead,
        ...(!finished && held && { held: { why: "limit" } as const }),
        ...(why && { confirm: { why, since: now.now } }),
      };
      // The letter is stored before.
      const before = isDead ? withLetter(known, orders.status) : known;
      return settle(before, by, settlement(how), now).record;
    };
  }),
  stepsOf("release", fc.constant(0), () => release),
  stepsOf("drop", fc.constant(0), () => drop),
  stepsOf("cancel", fc.constant(0), () => (known, now) => {
    const result = cancel(known, Number.MAX_SAFE_INTEGER, now);
    return result.kind === "dropped" ? result.record : undefined;
  }),
  stepsOf("restore", order, (order) => (known) => restore(known, ordersAt(order)).record),
  stepsOf("forget", fc.constant(0), () => (known, now) => {
    const result = forget(known, now);
    return result.kind === "erased" ? { ...NOTHING, row: result.row } : undefined;
  }),
  stepsOf("storeLetter", order, (order) => (known) => withLetter(known, order)),
);

function withLetter(known: KnownRecord, order: string): KnownRecord {
  const letter = { order, event: order, hasFields: true, is: "mapped", reason: "invalid" } as const;
  const stored = storeLetter(letter, known);
  return stored.kind === "stored" ? { ...known, letter: stored.mark } : known;
}

it("has each way that the reducers take, and no other", () => {
  const taken = new Set<string>();
  const way = fc.array(fc.tuple(step, some(1000, 1000, HOLD_MS), fc.boolean()), {
    minLength: 5,
    maxLength: 40,
    size: "max",
  });
  const begin = some(NOTHING, { ...NOTHING, row: rowWith({ orders: ordersAt("1") }) });
  const check = fc.property(begin, way, (begin, steps) => {
    let [known, ms] = [begin, 0];
    for (const [{ by, reduce }, later, warm] of steps) {
      ms += later;
      const next = reduce(known, at(ms, warm)) ?? known;
      const [from, to] = [modeOf(known), modeOf(next)];
      const arrow = arrowOf(from, to, by);
      if (from !== to) expect(arrow, `${from} --> ${to}: ${by}`).toBeDefined();
      if (arrow !== undefined) taken.add(`${arrow.from} --> ${arrow.to}: ${by}`);
      known = next;
    }
  });
  fc.assert(check, { numRuns: 3000 });
  const all = CHART.flatMap(({ by, from, to }) => by.map((one) => `${from} --> ${to}: ${one}`));
  expect([...taken].toSorted()).toEqual(all.toSorted());
});
