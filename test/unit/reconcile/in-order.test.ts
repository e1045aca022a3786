import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { inOrder } from "../../../src/reconcile/in-order.ts";

/** As a file of which each item is a piece of its own. */
async function* slowly<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  for (const item of items) {
    yield item;
    await nextTurn();
    await nextTurn();
  }
}

test("the results are in the order of the items", async () => {
  const results = inOrder(slowly([3, 1, 2]), 2, async (turns) => {
    for (let turn = 0; turn < turns; turn += 1) await nextTurn();
    return turns;
  });
  expect(await Array.fromAsync(results)).toEqual([3, 1, 2]);
});

test("an item that fails while the next one is read fails the reader alone", async () => {
  const unhandled: unknown[] = [];
  const listener = (error: unknown) => void unhandled.push(error);
  process.prependListener("unhandledRejection", listener);
  const results = inOrder(slowly([1, 2]), 2, async () => {
    throw new Error("no id");
  });
  await expect(Array.fromAsync(results)).rejects.toThrow("no id");
  process.off("unhandledRejection", listener);
  expect(unhandled).toEqual([]);
});
