/** The rules of turns, of stops after a 429, and of bursts: pure, in virtual time. */
import { expect, test } from "vitest";
import {
  learn,
  NEW,
  pacingOf,
  returnTurn,
  takeTurn,
  type PaceRules,
  type PaceState,
} from "../../../src/core/quota/pacing.ts";

const NOW = 1_764_000_000_000;
const LIMITS = { burst: 20, perHour: 1000, hourMs: 3_600_000 };
const FREE: PaceRules = { ...LIMITS, pacing: "burst" };
const AUTO: PaceRules = { ...LIMITS, pacing: "auto" };
const STEADY: PaceRules = { ...LIMITS, pacing: "steady" };
const AT_ONCE = { intervalMs: 0, early: 0 };
const SCARCE = { intervalMs: 3600, early: 3 / 4 };

const claim = (
  state: PaceState,
  now: number,
  given: { pace?: typeof AT_ONCE; lowestRank?: number } = {},
  rules = FREE,
) => {
  const { pace = AT_ONCE, lowestRank } = given;
  return takeTurn({ now, state, lowestRank }, pace, rules);
};

/** The state after a turn that is there. */
function taken(...args: Parameters<typeof claim>): PaceState {
  const next = claim(...args);
  if (typeof next === "number") throw new Error(`must wait ${next} ms`);
  return next;
}

const throttled = (state: PaceState, now: number, given: object = {}, rules = AUTO) =>
  learn(state, now, { askedMs: 1000, unexplained: true, random: 0, ...given }, rules);

test("turns at an even pace follow each other, and a late one lets the next be early", () => {
  let state = taken({ ...NEW, turn: NOW }, NOW + 3600, { pace: SCARCE });
  expect(claim(state, NOW + 3601, { pace: SCARCE })).toBe(3599);
  state = taken(state, NOW + 8000, { pace: SCARCE });
  expect(claim(state, NOW + 8001, { pace: SCARCE })).toBe(NOW + 10_800 - (NOW + 8001));
  // After a long time without requests, only one turn is made up for.
  state = taken(taken(state, NOW + 99_999, { pace: SCARCE }), NOW + 99_999, { pace: SCARCE });
  expect(claim(state, NOW + 99_999, { pace: SCARCE })).toBe(3600);
});

test("a rare change that comes meanwhile takes its turn early, and moves the next one on", () => {
  const state = { ...NEW, turn: NOW + 20_000 };
  expect(claim(state, NOW, { pace: SCARCE, lowestRank: NOW })).toBeGreaterThan(10_000);
  const rare = { pace: SCARCE, lowestRank: NOW - 720_000 };
  expect(taken(state, NOW, rare).turn).toBe(NOW + 23_600);
});

test("a record that waits takes its turn early by three quarters of its lead", () => {
  const state = { ...NEW, turn: NOW };
  const wait = claim(state, NOW, { pace: { intervalMs: 51_400, early: 3 / 4 }, lowestRank: NOW });
  expect(wait).toBeCloseTo(51_400 / 1.75, -1);
});

test("a turn that is returned is there again", () => {
  const state = { ...NEW, turn: NOW - 10_000, tat: NOW };
  const turn = taken(state, NOW, { pace: SCARCE }, STEADY);
  const returned = returnTurn(turn, { turnMs: 3600, pacing: "steady" }, STEADY);
  expect(returned.tat).toBe(NOW);
  expect(returned.turn).toBe(turn.turn - 3600);
});

test("steady pacing lets half a burst through at once, then one request for each token", () => {
  let state = NEW;
  for (let n = 0; n < 10; n += 1) state = taken(state, NOW, {}, STEADY);
  expect(claim(state, NOW, {}, STEADY)).toBe(3600);
  expect(claim(state, NOW + 3600, {}, STEADY)).not.toBeTypeOf("number");
});

test("a stop is only ever extended, and ends turns of every kind", () => {
  const long = throttled(NEW, NOW, { askedMs: 30_000 });
  const again = throttled(long, NOW + 10, { askedMs: 1000 });
  expect(again).toMatchObject({ stop: NOW + 30_000, failures: 1 });
  expect(claim(again, NOW + 20)).toBe(29_980);
});

test("a 429 that asks for nothing stops for longer each time, at most for five minutes", () => {
  let state = NEW;
  const waits = Array.from({ length: 12 }, (_, n) => {
    const now = NOW + n * 1_000_000;
    state = throttled(state, now, { askedMs: undefined, unexplained: false });
    return state.stop - now;
  });
  expect(waits.slice(0, 4)).toEqual([500, 1000, 2000, 4000]);
  expect(waits.at(-1)).toBe(150_000);
  expect(throttled(state, NOW + 5e7, { askedMs: undefined, random: 1 }).stop).toBe(NOW + 5e7 + 3e5);
});

test("the fourth 429 in a row is not believed to ask for the right wait", () => {
  let state = NEW;
  for (let n = 0; n < 3; n += 1) state = throttled(state, NOW + n * 1000, { askedMs: 100 });
  expect(state.stop).toBe(NOW + 2100);
  expect(throttled(state, NOW + 3000, { askedMs: 100 }).stop).toBe(NOW + 7000);
});

test("after a 429 one request goes alone, until a reply is no 429", () => {
  let state = throttled(NEW, NOW, {}, FREE);
  state = taken(state, NOW + 1000);
  expect(claim(state, NOW + 1000)).toBe(20);
  state = learn(state, NOW + 1050, "answered", FREE);
  expect(taken(taken(state, NOW + 1100), NOW + 1100).alone).toBe(0);
  // A process that died with it stops the others for 35 s.
  const dead = taken(throttled(NEW, NOW, {}, FREE), NOW + 1000);
  expect(claim(dead, NOW + 36_001)).not.toBeTypeOf("number");
});

test("an unexplained 429 makes pacing steady for a day, unless a request may be counted late", () => {
  const steady = throttled(NEW, NOW);
  expect(pacingOf(steady, NOW + 86_399_999, "auto")).toBe("steady");
  expect(pacingOf(steady, NOW + 86_400_000, "auto")).toBe("burst");
  expect(pacingOf(steady, NOW, "burst")).toBe("burst");
  const late = throttled(learn(NEW, NOW - 299_000, "none", AUTO), NOW);
  expect(pacingOf(late, NOW, "auto")).toBe("burst");
  expect(pacingOf(throttled(NEW, NOW, { unexplained: false }), NOW, "auto")).toBe("burst");
});
