import { expect, test } from "vitest";
import { gather } from "../../../src/ops/gather.ts";

/** Doubles each number; 13 fails, and with 99 the whole call. */
function doubling() {
  const calls: number[][] = [];
  const double = gather(async (numbers: readonly number[]) => {
    calls.push([...numbers]);
    if (numbers.includes(99)) throw new Error("all of them");
    return numbers.map((n) => (n === 13 ? new Error("unlucky") : 2 * n));
  });
  return { calls, double };
}

test("calls of one turn are made together, and each gets its own result", async () => {
  const { calls, double } = doubling();
  const ends = await Promise.allSettled([double(1), double(13), Promise.resolve(3).then(double)]);
  expect(calls).toEqual([[1, 13, 3]]);
  expect(ends).toMatchObject([{ value: 2 }, { reason: { message: "unlucky" } }, { value: 6 }]);
});

test("a later call does not wait for one that is under way", async () => {
  const { calls, double } = doubling();
  const first = double(1);
  await new Promise(setImmediate);
  const second = double(2);
  expect(await Promise.all([first, second])).toEqual([2, 4]);
  expect(calls).toEqual([[1], [2]]);
});

test("when the call fails, each of its callers knows", async () => {
  const { double } = doubling();
  const ends = await Promise.allSettled([double(1), double(99)]);
  expect(ends.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});
