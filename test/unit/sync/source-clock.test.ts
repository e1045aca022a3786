import { expect, test } from "vitest";
import { AT_FIRST, afterEvent, type SourceClock } from "../../../src/sync/source-clock.ts";

const HOUR = 3_600_000;

/** The clock after events that arrive at these times, each dated `behind` before its arrival. */
function after(events: readonly (readonly [at: number, behind: number])[], clock = AT_FIRST) {
  return events.reduce<SourceClock>(
    (seen, [at, behind]) => afterEvent(seen, at - behind, at),
    clock,
  );
}

const RIGHT = after([
  [0, 100],
  [60_000, 100],
]);

test("times that go back while arrivals grow are noticed, and end when the clock is right", () => {
  const back = after(
    [
      [70_000, HOUR],
      [73_000, HOUR + 900],
      [76_000, HOUR],
    ],
    RIGHT,
  );
  expect(back).toMatchObject({ isBack: true, behindMs: HOUR });
  // Longer than it was set back: its times are later than the newest of before, and still wrong.
  const later = after([[2 * HOUR, HOUR]], back);
  expect(later).toMatchObject({ isBack: true, newest: 2 * HOUR });
  expect(after([[2 * HOUR + 5, 50]], later).isBack).toBe(false);
});

test.each([
  [
    "two events",
    [
      [70_000, HOUR],
      [80_000, HOUR],
    ],
  ],
  [
    "events that were delivered again at once",
    [
      [70_000, HOUR],
      [70_100, HOUR],
      [70_200, HOUR],
    ],
  ],
  [
    "a queue that is drained",
    [
      [70_000, HOUR],
      [76_000, HOUR - 9000],
      [82_000, HOUR - 18_000],
    ],
  ],
  [
    "late events among others",
    [
      [70_000, HOUR],
      [75_000, 10],
      [80_000, HOUR],
      [85_000, HOUR],
    ],
  ],
  [
    "a slow way",
    [
      [70_000, 15_000],
      [80_000, 15_000],
      [90_000, 15_000],
    ],
  ],
] as const)("%s are no clock that was set back", (_, events) => {
  expect(after(events, RIGHT).isBack).toBe(false);
});
