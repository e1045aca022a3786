/**
 * Notifies that Redis cannot be used. The processes cannot agree then, so each notifies it by itself, by
 * the rules of all notifications, and says which process it is.
 */
import { backoffMs } from "../src/core/event/backoff.ts";
import { messagesOf, type Message, type Sender } from "../src/people/notify/message.ts";
import {
  transitions,
  type Notice,
  type NotifyState,
  type Topic,
} from "../src/people/notify/topics.ts";
import { isRedisTrouble } from "../src/base/redis-trouble.ts";
import { clockTime } from "../src/operate/status/clock-time.ts";
import { thisProcess } from "./audit-trail.ts";
import type { Uses } from "./parts.ts";

export interface RedisWatch {
  /** @param error of the last use of Redis; undefined: it went well. */
  note(error: unknown): void;
  /** Sends the oldest message that waits, if it is due. */
  deliver(signal: AbortSignal): Promise<void>;
}

/** How long Redis must be unusable before this is notified: a minute, in hour windows. */
const LASTS_HOURS = 1 / 60;

/** Pauses between two tries, doubled each time: 5 s to 5 minutes, in hour windows. */
const FIRST_PAUSE_HOURS = 1 / 720;
const LONGEST_PAUSE_HOURS = 1 / 12;

/** A message that cannot be delivered for this many hour windows is given up. */
const GIVE_UP_HOURS = 6;

const RUNBOOK = "docs/runbook.md#crmsyncredisaway";

interface Waiting {
  readonly message: Message;
  readonly madeAt: number;
  tries: number;
  dueAt: number;
}

export function watchRedis(
  { clock, config, metrics }: Uses<"clock" | "config" | "metrics">,
  sender: Sender,
): RedisWatch {
  const hourMs = config.QUOTA_HOUR_MS;
  const pauses = {
    firstMs: FIRST_PAUSE_HOURS * hourMs,
    longestMs: LONGEST_PAUSE_HOURS * hourMs,
  };
  const waiting: Waiting[] = [];
  let state: NotifyState = { topics: {} };

  /** By a clock that never steps; a message names Redis' time, as far as it is known. */
  function inSharedTime(notice: Notice): Notice {
    const now = performance.now();
    const shared = (at: number) => Math.round(clock.now() - now + at);
    const since = shared(notice.since);
    const says = notice.kind === "ended" ? ENDED : began(notice.says ?? "", since);
    return { ...notice, says, since, ...(notice.until && { until: shared(notice.until) }) };
  }

  return {
    note(error) {
      const topics = error !== undefined && isRedisTrouble(error) ? [topicOf(error)] : [];
      const now = performance.now();
      const changed = transitions(state, topics, { now, hourMs });
      state = changed.state;
      const about = { prefix: config.QUEUE_PREFIX, at: Math.round(clock.now()) };
      for (const message of messagesOf(changed.notices.map(inSharedTime), about)) {
        waiting.push({ message, madeAt: now, tries: 0, dueAt: now });
      }
    },
    async deliver(signal) {
      const [oldest] = waiting;
      if (oldest === undefined || performance.now() < oldest.dueAt) return;
      const { result } = await sender.send(oldest.message, signal);
      if (signal.aborted && result !== "sent") return;
      metrics.notifications.inc({ result });
      const now = performance.now();
      const isGivenUp = now - oldest.madeAt >= GIVE_UP_HOURS * hourMs;
      if (result === "sent" || isGivenUp) waiting.shift();
      if (result !== "sent" && isGivenUp) metrics.notifications.inc({ result: "given_up" });
      oldest.tries += 1;
      oldest.dueAt = now + backoffMs(oldest.tries, pauses);
    },
  };
}

const topicOf = (error: unknown): Topic => ({
  key: `redis ${thisProcess}`,
  severity: "stopped",
  says: isRejected(error) ? `Redis rejects commands (${error.message})` : "Redis is not reachable",
  runbook: RUNBOOK,
  lastsHours: LASTS_HOURS,
});

const isRejected = (error: unknown): error is Error =>
  error instanceof Error && error.name === "ReplyError";

/** A full Redis may still let what waits be sent: `crmsync status` says whether it does. */
const began = (what: string, since: number): string =>
  `${what} since ${clockTime(since)}, as the process ${thisProcess} sees it: nothing is accepted there${/\bOOM\b/.test(what) ? "" : ", and nothing is sent"}.`;

const ENDED = `The process ${thisProcess} can use Redis again.`;
