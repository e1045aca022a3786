/**
 * Lets senders go first: while very many events arrive, intake waits, for some seconds at most. Where senders,
 * Redis and intake share the cores, an import is accepted in half the time, and its last event is staged no
 * later: what intake does meanwhile slows the senders down (docs/adr/0036-producers-go-first.md).
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Inbox } from "../src/event/inbox.ts";

/** This many events a second are an import. Events of this process's own HTTP intake do not count. */
const MANY = 5000;

/** How often the events are counted, ms. */
const CHECK_MS = 100;

/** Senders go first for this long at most, ms: what waits in the inbox fills Redis. */
const LONGEST_MS = 5000;

export interface GiveWay {
  /** Resolves at once, unless very many events arrive. */
  wait(): Promise<void>;
  /** Nothing waits any more. */
  end(): void;
}

export function openGiveWay(inbox: Pick<Inbox, "countOthers">): GiveWay {
  const ended = new AbortController();
  let last = { at: Number.NEGATIVE_INFINITY, count: 0 };
  let waitedMs = 0;
  let waiting: Promise<void> | undefined;

  /** Whether very many have come since this was asked last. */
  async function areMany(): Promise<boolean> {
    const now = { at: performance.now(), count: await inbox.countOthers() };
    const perMs = (now.count - last.count) / (now.at - last.at);
    last = now;
    return perMs * 1000 >= MANY;
  }

  async function waitForSenders(): Promise<void> {
    while (await areMany()) {
      if (waitedMs >= LONGEST_MS || ended.signal.aborted) return;
      await sleep(CHECK_MS, undefined, { signal: ended.signal }).catch(() => {});
      waitedMs += CHECK_MS;
    }
    waitedMs = 0;
  }

  return {
    async wait() {
      if (waiting === undefined && performance.now() - last.at >= CHECK_MS) {
        waiting = waitForSenders().finally(() => (waiting = undefined));
      }
      await waiting;
    },
    end: () => ended.abort(),
  };
}
