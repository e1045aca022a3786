/** Intake lets producers go first while very many events arrive. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { onTestFinished, test } from "vitest";
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
  const giveWay = openGiveWay(inbox);
  const isWaiting = async () => {
    let isOver = false;
    void giveWay.wait().then(() => (isOver = true));
    // An answer of Redis, and what follows it.
    await redis.ping();
    for (let turn = 0; turn < 5; turn += 1) await nextTurn();
    return !isOver;
  };
  const untilItWaits = () => waitFor(isWaiting, { what: "intake waits" });
  return { giveWay, stop, untilItWaits };
}

test("intake waits while an import adds events, and goes on at its end", async () => {
  const { giveWay, stop, untilItWaits } = startImport();
  await untilItWaits();
  await stop();
  await giveWay.wait();
});

test("it goes on after some seconds, although the import does not end", async () => {
  const { giveWay, untilItWaits } = startImport();
  await untilItWaits();
  await giveWay.wait();
});

test("at its end it waits no longer", async () => {
  const { giveWay, untilItWaits } = startImport();
  await untilItWaits();
  giveWay.end();
  await giveWay.wait();
});
