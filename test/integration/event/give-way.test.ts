/** Intake lets producers go first while very many events arrive. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { openGiveWay } from "../../../workers/give-way.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { waitFor } from "../../support/wait-for.ts";

/** An import of very many events, as BullMQ's counter shows it, until it is stopped. */
function startImport() {
  const { inbox, redis } = newRuntime();
  const stopping = new AbortController();
  const added = (async () => {
    while (!stopping.signal.aborted) await redis.incrby(inbox.queue.toKey("id"), 1000);
  })();
  const stop = () => {
    stopping.abort();
    return added;
  };
  onTestFinished(stop);
  let asked = 0;
  const giveWay = openGiveWay({
    countOthers() {
      asked += 1;
      return inbox.countOthers();
    },
  });
  const isWaiting = async () => {
    let isOver = false;
    void giveWay.wait().then(() => (isOver = true));
    // An answer of Redis, and what follows it.
    await redis.ping();
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    return !isOver;
  };
  const untilItWaits = () => waitFor(isWaiting, { what: "intake waits" });
  /** Waits, and tells how often the events were counted meanwhile. */
  const countsUntilItGoesOn = async () => {
    const before = asked;
    await giveWay.wait();
    return asked - before;
  };
  return { giveWay, stop, untilItWaits, countsUntilItGoesOn };
}

/** While an import goes on, they are counted so often at least before intake goes on all the same. */
const MANY_COUNTS = 20;

test("intake waits while an import adds events, and goes on at its end", async () => {
  const { stop, untilItWaits, countsUntilItGoesOn } = startImport();
  await untilItWaits();
  await stop();
  expect(await countsUntilItGoesOn()).toBeLessThan(MANY_COUNTS);
});

test("intake goes on after some seconds, although the import does not end", async () => {
  const { untilItWaits, countsUntilItGoesOn } = startImport();
  await untilItWaits();
  expect(await countsUntilItGoesOn()).toBeGreaterThan(MANY_COUNTS);
});

test("at its end intake waits no longer", async () => {
  const { giveWay, untilItWaits, countsUntilItGoesOn } = startImport();
  await untilItWaits();
  giveWay.end();
  expect(await countsUntilItGoesOn()).toBeLessThan(MANY_COUNTS);
});
