/**
 * Notifies that Redis cannot be used. The processes cannot agree then, so each notifies it by itself:
 * once when it has lasted for a while, and once when it has ended.
 */
import { messagesOf, type Message } from "../src/notify/message.ts";
import type { Sender } from "../src/notify/send.ts";
import type { Notice } from "../src/notify/transitions.ts";
import type { Notifications } from "../src/state/notifications.ts";
import type { Runtime } from "./runtime.ts";

export interface RedisWatch {
  /** Redis could not be used. */
  failed(signal: AbortSignal): Promise<void>;
  /** Redis could be used. */
  succeeded(notifications: Notifications<Message>): Promise<void>;
}

/** How long it must last; a minute, in hour windows. */
const LASTS_HOURS = 1 / 60;

/** Pauses between two tries, ms. */
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 300_000;

interface Failing {
  /** By the clock of this process, which does not step; and by that of all processes. */
  readonly from: number;
  readonly since: number;
  message?: Message | undefined;
  isSent: boolean;
  nextTryAt: number;
  pauseMs: number;
}

export function watchRedis({ clock, config, metrics }: Runtime, sender: Sender): RedisWatch {
  const lastsMs = LASTS_HOURS * config.QUOTA_HOUR_MS;
  let failing: Failing | undefined;

  function messageOf(notice: Pick<Notice, "kind" | "says" | "since" | "until">) {
    const about = { prefix: config.QUEUE_PREFIX, at: Math.round(clock.now()) };
    const redis = { topic: "redis", severity: "stopped", runbook: SECTION, times: 1 } as const;
    return messagesOf([{ ...redis, ...notice }], about)[0];
  }

  return {
    async failed(signal) {
      const now = performance.now();
      const since = Math.round(clock.now());
      failing ??= { from: now, since, isSent: false, nextTryAt: 0, pauseMs: FIRST_PAUSE_MS };
      const isDue = now - failing.from >= lastsMs && now >= failing.nextTryAt;
      if (failing.isSent || !isDue) return;
      failing.message ??= messageOf({ kind: "began", says: BEGAN, since: failing.since });
      if (failing.message === undefined) return;
      const { result } = await sender.send(failing.message, signal);
      metrics.notifications.inc({ result });
      failing.isSent = result === "sent";
      failing.nextTryAt = performance.now() + failing.pauseMs;
      failing.pauseMs = Math.min(2 * failing.pauseMs, LONGEST_PAUSE_MS);
    },
    async succeeded(notifications) {
      if (failing === undefined) return;
      const { isSent, since } = failing;
      const until = Math.round(clock.now());
      const ended = messageOf({ kind: "ended", says: "Redis can be used again.", since, until });
      if (isSent && ended !== undefined) {
        const state = await notifications.state();
        // Another process has changed the state: the next step tries again.
        if ((await notifications.change(state, state, [ended])) === undefined) return;
      }
      failing = undefined;
    },
  };
}

const SECTION = "docs/runbook.md#crmsyncredisaway";
const BEGAN =
  "Redis does not answer this process, or rejects its writes: nothing is accepted or sent.";
