import { expect, test } from "vitest";
import type { WarmUp } from "../../../src/core/state/ledger.ts";
import { isListDue } from "../../../workers/warm-up.ts";

const MIN = 60_000;
const HOUR = 60 * MIN;
const COLD: WarmUp = {
  state: "cold",
  cursor: undefined,
  relations: 0,
  listedAt: undefined,
  coldSince: 1000,
  failure: undefined,
};

test.for([
  ["an outage may have ended", { ...COLD, failure: "connection_refused" }, 5 * MIN],
  ["the service has rejected the request", { ...COLD, failure: "rejected 400" }, HOUR],
  ["the list was empty", { ...COLD, state: "done", listedAt: 1000 }, HOUR],
] as const)("when %s the service is listed again after a while", ([, warmUp, pauseMs]) => {
  expect(isListDue(warmUp, HOUR, 1000 + pauseMs)).toBe(false);
  expect(isListDue(warmUp, HOUR, 1001 + pauseMs)).toBe(true);
});

test("a list that was cut short goes on at once, and a whole one is not asked for again", () => {
  expect(isListDue({ ...COLD, state: "done", relations: 9, cursor: "x" }, HOUR, 1000)).toBe(true);
  expect(isListDue({ ...COLD, state: "done", relations: 9, listedAt: 1 }, HOUR, 9 * HOUR)).toBe(
    false,
  );
});
