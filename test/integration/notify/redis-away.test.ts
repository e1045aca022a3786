/** Redis dies, and comes back: each process notifies it once by itself, and no other message is lost. */
import { expect, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { createLog } from "../../../src/base/log.ts";
import { thisProcess } from "../../../workers/audit-trail.ts";
import { AT_START } from "../../../workers/chore-table.ts";
import { openParts, type Parts } from "../../../workers/parts.ts";
import { startChore, startChores } from "../../support/chores.ts";
import {
  startReceiver,
  type NotifyReceiver,
  type Received,
} from "../../support/notify-receiver.ts";
import { ownRedis, type OwnRedis } from "../../support/own-redis.ts";
import { waitFor } from "../../support/wait-for.ts";

/** An hour of 12 s: a lost Redis is notified after 0.2 s, its end after 0.1 s. */
const HOUR_MS = "12000";

const REDIS = `redis ${thisProcess}`;

function runtimeOn({ url }: OwnRedis, receiver: NotifyReceiver): Parts {
  const runtime = openParts({
    config: readConfig({ REDIS_URL: url, QUOTA_HOUR_MS: HOUR_MS, NOTIFY_URL: receiver.url }),
    redisUrl: url,
    version: "test",
    log: createLog("silent"),
    mapping: businessRelationMapping,
  });
  onTestFinished(() => runtime.close());
  return runtime;
}

function notifyBy(runtime: Parts, mayWork: Promise<unknown>): void {
  startChores(runtime, AT_START, { parts: runtime, mayWork });
}

/** As "began x". */
const kindsOf = ({ received }: Pick<NotifyReceiver, "received">) =>
  received
    .map(({ body }) => body["data"] as Record<string, unknown>)
    .map(({ finding, kind }) => `${String(kind)} ${String(finding)}`);

const until = (receiver: NotifyReceiver, kind: string, count: number) =>
  waitFor(() => kindsOf(receiver).filter((one) => one === kind).length >= count, {
    what: `${count} times ${kind}`,
  });

test("Redis is killed and starts again: two processes say so once each, and the message that waited arrives once", async () => {
  await using redis = await ownRedis();
  await using receiver = await startReceiver();
  const [first, second] = [runtimeOn(redis, receiver), runtimeOn(redis, receiver)];
  startChore(first, "heartbeat");
  await waitFor(async () => (await first.heartbeats.running()).length > 0, { what: "a heartbeat" });
  for (const runtime of [first, second]) notifyBy(runtime, Promise.resolve());
  await first.inbox.queue.pause();
  await until(receiver, "began crmsyncqueuepaused", 1);

  // The end of it waits in Redis, because the receiver fails.
  receiver.answer = (response) => void response.writeHead(500).end();
  await first.inbox.queue.resume();
  await until(receiver, "ended crmsyncqueuepaused", 1);
  await redis.kill();
  const failed = new Set(receiver.received.slice(1).map(({ id }) => id));
  const taken: Received[] = [];
  receiver.answer = (response) => {
    taken.push(...receiver.received.slice(-1));
    response.writeHead(204).end();
  };
  const before = receiver.received.length;
  await until(receiver, `began ${REDIS}`, 2);
  const [away] = receiver.received.slice(before);
  expect(away?.body["data"]).toMatchObject({
    severity: "stopped",
    says: expect.stringMatching(
      new RegExp(`^Redis is not reachable since \\S+Z, as the process ${thisProcess} sees it`),
    ) as string,
    runbook: "docs/runbook.md#crmsyncredisaway",
  });

  await redis.start();
  await until(receiver, `ended ${REDIS}`, 2);
  await waitFor(() => [...failed].every((id) => taken.some((one) => one.id === id)), {
    what: "the end that waited",
  });
  // The next message would come behind whatever is sent twice.
  await second.inbox.queue.pause();
  await until(receiver, "began crmsyncqueuepaused", 2);
  expect(kindsOf({ received: taken }).toSorted()).toEqual(
    [
      ...[REDIS, REDIS].flatMap((one) => [`began ${one}`, `ended ${one}`]),
      "ended crmsyncqueuepaused",
      "began crmsyncqueuepaused",
    ].toSorted(),
  );
});

test("a process that starts without Redis says so, and looks at nothing before it may", async () => {
  await using redis = await ownRedis();
  await using receiver = await startReceiver();
  await redis.client.hset("{crmsync}:crm-events:meta", "paused", "1");
  await redis.kill();
  const { promise: workable, resolve } = Promise.withResolvers<void>();
  notifyBy(runtimeOn(redis, receiver), workable);
  await until(receiver, `began ${REDIS}`, 1);
  await redis.start();
  await until(receiver, `ended ${REDIS}`, 1);
  expect(await redis.client.exists("{crmsync}:notify")).toBe(0);
  resolve();
  await waitFor(async () => (await redis.client.exists("{crmsync}:notify")) === 1, {
    what: "a look",
  });
  expect(kindsOf(receiver).slice(0, 2)).toEqual([`began ${REDIS}`, `ended ${REDIS}`]);
});
