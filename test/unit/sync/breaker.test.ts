import { describe, expect, it } from "vitest";
import {
  claim,
  CLOSED,
  doubtedSince,
  hear,
  isQuiet,
  isRejecting,
  notTried,
  type Breaker,
  type Heard,
} from "../../../src/core/sync/breaker.ts";

const BELIEVE_MS = 300_000;
const FAILED = { kind: "failed", reason: "timeout", isFirst: true } as const;
const AGAIN = { ...FAILED, isFirst: false } as const;
const ACCEPTED = { kind: "accepted", again: false } as const;
const ANSWERED = { kind: "answered" } as const;

const rejected = (record: string, again = false): Heard => ({ kind: "rejected", record, again });

const after = (heard: readonly Heard[], from: Breaker = CLOSED, now = 0): Breaker =>
  heard.reduce((b, one) => hear(b, one, false, now, BELIEVE_MS), from);

const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

const OPEN = after(times(5, () => FAILED));
const REJECTING = after(times(5, (n) => rejected(`r${n}`)));

describe("failures", () => {
  it("five records in a row open it; any usable reply closes it", () => {
    expect(after(times(4, () => FAILED)).open).toBeUndefined();
    expect(OPEN.open).toEqual({ since: 0, reason: "timeout", nextTryAt: 1000 });
    for (const reply of [ACCEPTED, ANSWERED, rejected("x")]) {
      expect(after([reply], OPEN).open).toBeUndefined();
      expect(after([...times(4, () => FAILED), reply, FAILED]).open).toBeUndefined();
    }
    expect(isQuiet(after([ACCEPTED], OPEN))).toBe(true);
  });

  it("a record that fails again does not open it, unless there is no connection", () => {
    expect(after(times(50, () => AGAIN))).toEqual(CLOSED);
    const refused = { ...AGAIN, reason: "connection_refused" };
    expect(after(times(5, () => refused)).open?.reason).toBe("connection_refused");
  });

  it("one try per pause, which is a thirtieth of the time since it opened, within a second and a minute", () => {
    let [b, now] = [OPEN, 0];
    const pauses: number[] = [];
    while (now < 3_600_000) {
      const { waitMs } = claim(b, now, 0);
      now += waitMs;
      pauses.push(waitMs);
      ({ breaker: b } = claim(b, now, 0));
      b = hear(b, AGAIN, true, now, BELIEVE_MS);
    }
    expect(pauses.slice(0, 30)).toEqual(times(30, () => 1000));
    expect(Math.max(...pauses)).toBe(60_000);
    expect(pauses.length).toBeLessThan(190);
  });

  it("a hundred records that fail, in front of good ones, keep them waiting for minutes, not hours", () => {
    let [b, now] = [OPEN, 0];
    for (let failed = 5; failed < 100; failed += 1) {
      now += claim(b, now, 0).waitMs;
      b = hear(claim(b, now, 0).breaker, FAILED, true, now, BELIEVE_MS);
    }
    expect(now).toBeLessThan(420_000);
    // The good one behind them ends it, and retries of the others do not open it again.
    now += claim(b, now, 0).waitMs;
    b = hear(b, ACCEPTED, true, now, BELIEVE_MS);
    expect(
      after(
        times(100, () => AGAIN),
        b,
        now,
      ),
    ).toEqual(CLOSED);
  });

  it("a second try is made only when the first has ended, or cannot take longer", () => {
    const { breaker, waitMs } = claim(OPEN, 1000, 30_000);
    expect(waitMs).toBe(0);
    expect(claim(breaker, 1000, 30_000).waitMs).toBe(30_000);
    expect(claim(hear(breaker, AGAIN, true, 1500, BELIEVE_MS), 1500, 30_000).waitMs).toBe(1000);
    expect(claim(notTried(breaker, 1500), 1500, 30_000).waitMs).toBe(1000);
    // Others that were in flight when it opened move nothing.
    expect(claim(after([AGAIN, FAILED], breaker), 1000, 30_000).waitMs).toBe(30_000);
  });
});

describe("rejections", () => {
  it("five records in a row open it, and the fifth is put off; one record alone never does", () => {
    expect(after(times(4, (n) => rejected(`r${n}`))).open).toBeUndefined();
    expect(REJECTING.open).toEqual({ since: 0, reason: "rejecting", nextTryAt: 1000 });
    expect(isRejecting(REJECTING)).toBe(true);
    expect(after(times(50, () => rejected("r"))).open).toBeUndefined();
  });

  it("only an accepted change closes it: other replies say nothing of the payloads", () => {
    expect(after([ANSWERED], REJECTING).open).toBeDefined();
    expect(isRejecting(after([FAILED], REJECTING))).toBe(true);
    const closed = after([ACCEPTED], REJECTING);
    expect(closed.open).toBeUndefined();
    // What is rejected again now is final, and makes no new row.
    expect(
      isRejecting(
        after(
          times(9, (n) => rejected(`r${n}`, true)),
          closed,
        ),
      ),
    ).toBe(false);
    expect(
      isRejecting(
        after(
          times(5, (n) => rejected(`r${n}`)),
          closed,
        ),
      ),
    ).toBe(true);
  });

  it("without one they are believed, until the next change is accepted", () => {
    const late = after([rejected("r9", true)], REJECTING, BELIEVE_MS);
    expect(isRejecting(after([rejected("r9", true)], REJECTING, BELIEVE_MS - 1))).toBe(true);
    expect(late).toMatchObject({ open: undefined, believed: true });
    expect(
      isRejecting(
        after(
          times(50, (n) => rejected(`more${n}`)),
          late,
          BELIEVE_MS,
        ),
      ),
    ).toBe(false);
    const closed = after([ACCEPTED], late);
    expect(
      isRejecting(
        after(
          times(5, (n) => rejected(`r${n}`)),
          closed,
        ),
      ),
    ).toBe(true);
  });

  it("it is noted since when they may be false, until a rejected record is accepted", () => {
    expect(
      doubtedSince(
        after(
          times(4, (n) => rejected(`r${n}`)),
          CLOSED,
          7,
        ),
      ),
    ).toBeUndefined();
    const row = after(
      times(5, (n) => rejected(`r${n}`)),
      CLOSED,
      7,
    );
    expect(doubtedSince(row)).toBe(7);
    expect(doubtedSince(after([ACCEPTED, ACCEPTED], row, 9))).toBe(7);
    expect(doubtedSince(after([{ kind: "accepted", again: true }], row, 9))).toBeUndefined();
  });
});

/** The line with one request at a time of 0.25 s, and what fails retried after 30 s, doubling, behind the others. */
function sentAfter(records: readonly ("good" | "faulty")[]): number {
  const line = records.map((kind) => ({ kind, at: 0, tries: 0 }));
  let [b, now] = [CLOSED, 0];
  const goodLeft = () => line.some(({ kind }) => kind === "good");
  while (goodLeft()) {
    now += Math.max(250, claim(b, now, 0).waitMs);
    const next = line.filter(({ at }) => at <= now).toSorted((a, c) => a.at - c.at)[0];
    if (next === undefined) continue;
    const isTry = b.open !== undefined;
    ({ breaker: b } = claim(b, now, 30_000));
    if (next.kind === "good") {
      line.splice(line.indexOf(next), 1);
      b = hear(b, ACCEPTED, isTry, now, BELIEVE_MS);
    } else {
      b = hear(b, { ...FAILED, isFirst: next.tries === 0 }, isTry, now, BELIEVE_MS);
      next.tries += 1;
      next.at = now + 30_000 * 2 ** Math.min(5, next.tries);
    }
  }
  return now;
}

const good = times(57, () => "good" as const);
const faulty = (count: number) => times(count, () => "faulty" as const);

it.each([
  ["30 come first", [...faulty(30), ...good], 1],
  ["5 come first and 95 last", [...faulty(5), ...good, ...faulty(95)], 1],
  ["100 come first", [...faulty(100), ...good], 5],
  ["they alternate", good.flatMap((one) => [...faulty(2), one]), 1],
])("records that always fail do not stop the others: %s", (_name, records, minutes) => {
  expect(sentAfter(records)).toBeLessThan(minutes * 60_000);
});
