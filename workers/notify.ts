/**
 * Notifies what has begun and ended (NOTIFY_URL). All processes share one state: whichever looks
 * first queues the messages, and one process at a time sends the oldest. Nothing else waits for it.
 */
import { once } from "node:events";
import type { Redis } from "ioredis";
import {
  messagesOf,
  reconciledNotice,
  type Message,
  openSender,
  type Sender,
  type Sent,
} from "../src/people/notify/message.ts";
import {
  endOf,
  topicsIn,
  reconciledSince,
  transitions,
  type Notice,
  type NotifyState,
} from "../src/people/notify/topics.ts";
import type { MessageQueue, WaitingMessage } from "../src/core/state/message-queue.ts";
import { Notifications } from "../src/core/state/notifications.ts";
import { NO_DRIFT } from "../src/core/sync/drift.ts";
import { findingsIn } from "../src/operate/status/findings.ts";
import { watchRedis } from "./notify-redis.ts";
import type { ChoreWork } from "./chores.ts";
import type { Uses } from "./parts.ts";

/** Longest wait for the first connection to Redis, ms. */
const CONNECT_MS = 2000;

type NotifyParts = Uses<
  "clock" | "comparisons" | "config" | "keys" | "log" | "metrics" | "readings" | "statusRedis"
>;

/**
 * @param workable resolves when this process may work on the state in Redis; until then it only says
 *   whether Redis can be used.
 * @returns undefined without NOTIFY_URL
 */
export function notify(parts: NotifyParts, workable: Promise<unknown>): ChoreWork | undefined {
  const sender = openSender(parts.config, undefined, () => parts.clock.now());
  return sender && notifyWith(sender, parts, workable);
}

/** The first connection takes a moment; a Redis that is away is noticed all the same. */
async function connected(redis: Redis): Promise<void> {
  if (redis.status === "ready") return;
  const waiting = AbortSignal.timeout(CONNECT_MS);
  await once(redis, "ready", { signal: waiting }).catch(() => {});
}

function notifyWith(sender: Sender, parts: NotifyParts, workable: Promise<unknown>): ChoreWork {
  const { config, keys, statusRedis } = parts;
  // This connection fails in time, so that a lost Redis is noticed.
  const notifications = new Notifications<Message>(statusRedis, keys, config.QUOTA_HOUR_MS);
  const watch = watchRedis(parts, sender);
  let isWorkable = false;
  workable.then(
    () => (isWorkable = true),
    () => {},
  );

  async function step(signal: AbortSignal, everyMs: number): Promise<void> {
    // A process that may not work yet only tests that Redis can be written: the key is gone after 1 ms.
    const isFirst = await notifications.claimLook(isWorkable ? everyMs : 1);
    if (!isWorkable) return;
    if (isFirst) await look(parts, notifications);
    while (!signal.aborted && (await deliver(parts, notifications, sender, signal)));
  }

  let connecting: Promise<unknown> | undefined = connected(statusRedis);
  return {
    async run(signal, everyMs) {
      await connecting;
      connecting = undefined;
      try {
        await step(signal, everyMs);
        watch.note(undefined);
      } catch (error) {
        watch.note(error);
        throw error;
      } finally {
        await watch.deliver(signal);
      }
    },
    close: () => sender.close(),
  };
}

/** Queues messages about what has begun or ended since the last look of any process. */
async function look(
  { comparisons, config, log, metrics, ...parts }: NotifyParts,
  notifications: Notifications<Message>,
): Promise<void> {
  const [before, readings] = await Promise.all([notifications.state(), parts.readings()]);
  const findings = findingsIn(readings, config.QUOTA_HOUR_MS);
  const topics = topicsIn(findings, readings, config.NOTIFY_DEAD_LETTERS);
  const { now, reconciliation } = readings;
  const known = reconciledSince(stateOf(before), reconciliation);
  const changed = transitions(known.state, topics, { now, hourMs: config.QUOTA_HOUR_MS });
  const notices = changed.notices.flatMap((notice): Notice[] => {
    const says = notice.says ?? endOf(notice.topic, readings);
    return says === undefined ? [] : [{ ...notice, says }];
  });
  if (known.isNew && reconciliation !== undefined) {
    const since = stateOf(before).reconciledAt ?? 0;
    const others = (await comparisons.last(now)).filter(
      ({ at, stop }) =>
        (stop === undefined || stop === "terminations") && at > since && at < reconciliation.at,
    );
    const all = others
      .toReversed()
      .map((one) => ({ ...one, drift: { ...NO_DRIFT, ...one.drift } }));
    notices.push(...[...all, reconciliation].map(reconciledNotice));
  }
  const next = JSON.stringify(changed.state);
  if (next === before) return;
  const messages = messagesOf(notices, { prefix: config.QUEUE_PREFIX, at: now });
  const leftOut = await notifications.change(before, next, messages);
  if (leftOut === undefined || leftOut === 0) return;
  metrics.notifications.inc({ result: "left_out" }, leftOut);
  log.warn({ messages: leftOut }, "notify.left_out");
}

function stateOf(text: string): NotifyState {
  try {
    return JSON.parse(text) as NotifyState;
  } catch {
    return { topics: {} };
  }
}

/** @returns whether another message may be due. */
async function deliver(
  { log, metrics }: Uses<"log" | "metrics">,
  notifications: Notifications<Message>,
  sender: Sender,
  signal: AbortSignal,
): Promise<boolean> {
  const tried = await tryOldest(notifications, (message) => sender.send(message, signal), signal);
  if (tried === undefined) return false;
  const { sent, settled, tries } = tried;
  metrics.notifications.inc({ result: sent.result });
  if (sent.result === "sent") return settled !== "gone";
  if (settled === "given_up") metrics.notifications.inc({ result: "given_up" });
  log.warn({ why: sent.says, tries }, settled === "given_up" ? "notify.given_up" : "notify.failed");
  return false;
}

/** One try of the oldest message of a queue. @returns undefined when none was due, or the try was cut short */
export async function tryOldest<Waiting extends WaitingMessage>(
  queue: MessageQueue<Waiting>,
  send: (message: Waiting) => Promise<Sent>,
  signal: AbortSignal,
) {
  const taken = await queue.take();
  if (taken === undefined) return undefined;
  const { message, tries } = taken;
  const sent = await send(message);
  // Another process takes it after the lease.
  if (signal.aborted && sent.result !== "sent") return undefined;
  const failed = { why: sent.says, waitMs: sent.waitMs, isRefused: sent.isRefused };
  const settled = await queue.settle(message, tries, sent.result === "sent" ? undefined : failed);
  return { message, sent, settled, tries };
}
