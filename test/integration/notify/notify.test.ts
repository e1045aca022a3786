/** What begins and ends is notified once, by real HTTP, whichever of the processes notices it. */
import type { ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { openSender, testMessage, type Message } from "../../../src/people/notify/message.ts";
import { Notifications } from "../../../src/core/state/notifications.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { AT_START } from "../../../workers/chore-table.ts";
import { thisProcess } from "../../../workers/audit-trail.ts";
import type { Parts } from "../../../workers/parts.ts";
import { startChore, startChores } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import {
  isSigned,
  startReceiver,
  type NotifyReceiver,
  type Received,
} from "../../support/notify-receiver.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const SECRET = "whsec_c2VjcmV0IG9mIGEgdGVzdCwgMzIgYnl0ZXMgbG9uZw==";

/** An hour of 12 s: what lasts for 0.1 s is notified, and again after 2 s at the earliest. */
const HOUR_MS = "12000";

async function start(env: Readonly<Record<string, string>> = {}, processes = 1) {
  const receiver = await startReceiver();
  onTestFinished(() => receiver[Symbol.asyncDispose]());
  const all = {
    QUEUE_PREFIX: uniquePrefix(),
    QUOTA_HOUR_MS: HOUR_MS,
    NOTIFY_URL: receiver.url,
    NOTIFY_SECRET: SECRET,
    ...env,
  };
  const runtimes = Array.from({ length: processes }, () => newRuntime(all));
  const [runtime] = runtimes;
  if (runtime === undefined) throw new Error("no process");
  // Otherwise it would be notified that no process runs.
  startChore(runtime, "heartbeat");
  await runtime.heartbeats.running();
  await waitFor(async () => (await runtime.heartbeats.running()).length > 0, {
    what: "a heartbeat",
  });
  for (const one of runtimes) {
    startChores(one, AT_START, { parts: one, mayWork: Promise.resolve() });
  }
  return { runtime, runtimes, receiver };
}

const dataOf = ({ body }: Received) => body["data"] as Record<string, unknown>;
const kindsOf = ({ received }: NotifyReceiver) =>
  received.map((one) => `${String(dataOf(one)["kind"])} ${String(dataOf(one)["finding"])}`);
const arrived = ({ received }: NotifyReceiver, count: number) =>
  waitFor(() => received.length >= count, { what: `${count} notifications` });

async function fillDead({ deadLetters }: Parts, count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const crmCode = `crm-code-${n}`;
    const letter = { reason: "invalid", event: '{"lastName":"Muster"}', at: Date.now() } as const;
    const problems = [{ field: "birthDate", rule: "must be a date", kind: "a string" }];
    await deadLetters.store(createDeadLetter({ crmCode }, { ...letter, problems }));
  }
}

test("two processes notify a stop once when it begins and once when it ends, signed", async () => {
  const { runtime, receiver } = await start({ NOTIFY_DEAD_LETTERS: "3" }, 2);
  await runtime.inbox.queue.pause();
  await arrived(receiver, 1);
  await runtime.inbox.queue.resume();
  await arrived(receiver, 2);
  // Whatever would be sent twice would arrive before this.
  await fillDead(runtime, 3);
  await arrived(receiver, 3);
  expect(kindsOf(receiver)).toEqual([
    "began crmsyncqueuepaused",
    "ended crmsyncqueuepaused",
    "began crmsyncdeadletters",
  ]);
  for (const one of receiver.received) expect(isSigned(one, SECRET)).toBe(true);
  expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(3);
  const [began, ended, dead] = receiver.received;
  expect(began?.body).toMatchObject({
    type: "crmsync.finding.began",
    timestamp: expect.stringMatching(/Z$/) as string,
    data: {
      severity: "stopped",
      says: "Somebody has paused the queue crm-events through BullMQ; crmsync itself never does.",
      runbook: "docs/runbook.md#crmsyncqueuepaused",
    },
  });
  expect(dataOf(ended as Received)["text"]).toMatch(
    /^crmsync \{.+\}: Ended at \S+Z after \d+ s: The queues are no longer paused or limited\.$/,
  );
  expect(dataOf(dead as Received)["text"]).toContain("3 dead letters wait for a person");
  // Nothing of the records.
  for (const { text } of receiver.received) expect(text).not.toMatch(/Muster|crm-code/);
});

test("what is not taken is sent again with the same id, and is a finding until then", async () => {
  const { runtime, receiver } = await start();
  receiver.answer = (response) => void response.writeHead(500).end("x".repeat(5_000_000));
  await runtime.inbox.queue.pause();
  await arrived(receiver, 3);
  const says = async () =>
    findingsIn(await takeReadings(runtime), runtime.config.QUOTA_HOUR_MS).map((one) => one.says);
  const failing =
    /^NOTIFY_URL takes no notification since \S+Z \(HTTP 500\); 1 notification waits: crmsync notify test says why\.$/;
  await waitFor(async () => (await says()).some((text) => failing.test(text)), {
    what: "the finding",
  });
  receiver.answer = (response) => void response.writeHead(200).end("ok");
  const text = await waitFor(
    async () => !(await says()).some((one) => one.startsWith("NOTIFY_URL")),
    { what: "the end of the finding" },
  );
  expect(text).toBe(true);
  expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);
  expect(new Set(receiver.received.map(({ text: body }) => body)).size).toBe(1);
  // It is counted after Redis has forgotten it, with which the finding ends.
  const counts = async () => {
    const { values } = await runtime.metrics.notifications.get();
    return new Map(values.map(({ labels, value }) => [labels.result, value]));
  };
  await expect.poll(async () => (await counts()).get("sent")).toBe(1);
  expect((await counts()).get("given_up")).toBe(0);
  expect((await counts()).get("server_error")).toBe(receiver.received.length - 1);
});

test("the end of a comparison is notified, with counts only", async () => {
  const { runtime, receiver } = await start();
  await runtime.inbox.queue.pause();
  await arrived(receiver, 1);
  const none = { missing: 0, different: 0, terminated: 0, ended: 0, extra: 0, invalid: 0 };
  const drift = { ...none, emptied: 0, unmappable: 0, duplicate: 0, missing: 5 };
  // One more has ended between two looks: only the list has it.
  const at = Date.now();
  const counts = { tookMs: 9, records: 2, equal: 2, drift: {} };
  const found = { ...counts, source: "folder", kind: "crm", asOf: at } as const;
  await runtime.comparisons.note({ ...found, at: at - 1 });
  await runtime.comparisons.note({ ...found, at });
  await runtime.reconciliations.keep({ at, tookMs: 9, records: 20, equal: 15, drift });
  await arrived(receiver, 3);
  expect(dataOf(receiver.received[2] as Received)["says"]).toContain("of 20 records 15 are equal");
  expect(receiver.received[1]?.body).toMatchObject({
    type: "crmsync.reconciled",
    data: {
      says: "The CRM was compared with the service: of 2 records 2 are equal; nothing differs.",
    },
  });
});

test("a lost Redis is notified by the process itself, and its end too", async () => {
  const { runtime, receiver } = await start();
  await runtime.inbox.queue.pause();
  await arrived(receiver, 1);
  // As if Redis rejected every command of this process.
  await runtime.redis.del(runtime.keys.notify);
  await runtime.redis.hset(runtime.keys.notify, "not", "text");
  await arrived(receiver, 2);
  await runtime.redis.del(runtime.keys.notify);
  await waitFor(() => kindsOf(receiver).includes(`ended redis ${thisProcess}`), {
    what: "the end",
  });
  expect(kindsOf(receiver).slice(0, 2)).toEqual([
    "began crmsyncqueuepaused",
    `began redis ${thisProcess}`,
  ]);
  expect(dataOf(receiver.received[1] as Received)["text"]).toContain(
    "Redis rejects commands (WRONGTYPE",
  );
});

test("messages beyond a hundred are left out, and each is taken by one process at a time", async () => {
  const runtime = newRuntime();
  const { keys, redis } = runtime;
  const notifications = new Notifications<Message>(redis, keys, 3_600_000);
  const messages = Array.from({ length: 130 }, () => testMessage({ prefix: "p", at: Date.now() }));
  expect(await notifications.change("", "1", messages)).toBe(30);
  expect(await notifications.change("", "2", messages)).toBeUndefined();
  const [first, second] = await Promise.all([notifications.take(), notifications.take()]);
  expect(first).toEqual({ message: messages[0], tries: 0 });
  expect(second).toBeUndefined();
  const settled = { why: "HTTP 500", waitMs: undefined };
  expect(await notifications.settle(messages[1] as Message, 0, settled)).toBe("gone");
  expect(await notifications.settle(messages[0] as Message, 0)).toBe("sent");
  expect((await notifications.take())?.message).toEqual(messages[1]);
});

test("a message that its receiver refuses lets the others go first", async () => {
  const { keys, redis } = newRuntime();
  const notifications = new Notifications<Message>(redis, keys, 10_000);
  const messages = [1, 2].map(() => testMessage({ prefix: "p", at: Date.now() }));
  await notifications.change("", "1", messages);
  const refused = { why: "HTTP 400", waitMs: undefined, isRefused: true };
  const order: unknown[] = [];
  for (let tries = 0; tries < 4; tries += 1) {
    const taken = await waitFor(() => notifications.take(), { what: "a message is due" });
    order.push(messages.findIndex(({ id }) => id === taken.message.id));
    await notifications.settle(taken.message, taken.tries, refused);
  }
  expect(order).toEqual([0, 0, 0, 1]);
});

test("a message that cannot be delivered for six hours is given up", async () => {
  const { keys, redis } = newRuntime();
  const notifications = new Notifications<Message>(redis, keys, 3_600_000);
  const message = testMessage({ prefix: "p", at: Date.now() - 7 * 3_600_000 });
  await notifications.change("", "1", [message]);
  expect(await notifications.take()).toBeDefined();
  const settled = { why: "HTTP 404", waitMs: undefined };
  expect(await notifications.settle(message, 0, settled)).toBe("given_up");
  expect(await notifications.take()).toBeUndefined();
});

/** @param timeoutMs so long that no answer is late on a busy machine, unless that is what is tested. */
async function sendTo(
  answer: NotifyReceiver["answer"],
  env: Record<string, string> = {},
  timeoutMs = 30_000,
) {
  const receiver = await startReceiver();
  onTestFinished(() => receiver[Symbol.asyncDispose]());
  receiver.answer = answer;
  const { config } = newRuntime({ NOTIFY_URL: receiver.url, ...env });
  const sender = openSender(config, timeoutMs);
  onTestFinished(async () => sender?.close());
  const sent = await sender?.send(testMessage({ prefix: "{p} <!channel>", at: Date.now() }));
  return { sent, receiver };
}

test("a receiver that hangs, or sends its answer byte by byte, does not hold it up", async () => {
  const { sent } = await sendTo(() => {}, {}, 300);
  expect(sent).toMatchObject({ result: "timeout", says: "no answer within 0.3 s" });
  const drip = (response: ServerResponse) => {
    response.writeHead(200);
    const dripping = setInterval(() => response.write("x"), 20);
    response.on("close", () => clearInterval(dripping));
  };
  const slow = await sendTo(drip, {}, 3000);
  expect(slow.sent).toMatchObject({ result: "sent" });
});

test("a redirect is not followed", async () => {
  const other = await startReceiver();
  onTestFinished(() => other[Symbol.asyncDispose]());
  const { sent } = await sendTo(
    (response) => void response.writeHead(307, { location: other.url }).end(),
  );
  expect(sent).toMatchObject({ result: "redirect", says: "HTTP 307" });
  expect(other.received).toEqual([]);
});

test("Slack's form: one text, in which nothing is a link or a mention", async () => {
  const { sent, receiver } = await sendTo(
    (response) => void response.writeHead(200).end("ok\u001b[31m"),
    { NOTIFY_FORMAT: "slack" },
  );
  expect(sent).toMatchObject({ result: "sent", answer: "ok\\u001b[31m" });
  const [received] = receiver.received;
  expect(Object.keys(received?.body ?? {})).toEqual(["text"]);
  expect(received?.body["text"]).toMatch(/^crmsync \{p\} &lt;!channel&gt;: this is a test/);
});

test("the form of Microsoft Teams: a card whose texts know no Markdown", async () => {
  const { sent, receiver } = await sendTo((response) => void response.writeHead(202).end(), {
    NOTIFY_FORMAT: "teams",
  });
  expect(sent).toMatchObject({ result: "sent" });
  const run = {
    type: "TextRun",
    text: expect.stringMatching(/^crmsync \{p\} <!channel>: this/) as string,
  };
  expect(receiver.received[0]?.body).toMatchObject({
    type: "message",
    attachments: [
      {
        contentType: "application/vnd.microsoft.card.adaptive",
        content: { type: "AdaptiveCard", body: [{ type: "RichTextBlock", inlines: [run] }] },
      },
    ],
  });
});

test.each([
  ["https://hooks.slack.com/services/T/B/x", "slack"],
  ["https://prod-12.westeurope.logic.azure.com:443/workflows/a/triggers/manual?sig=x", "teams"],
  ["https://defaulta1.b2.environment.api.powerplatform.com:443/powerautomate/x?sig=x", "teams"],
  ["https://logic.azure.com.example.com/hook", "webhook"],
])("the form for %s is %s", async (NOTIFY_URL, format) => {
  const sender = openSender(newRuntime({ NOTIFY_URL }).config);
  onTestFinished(async () => sender?.close());
  expect(sender?.where()).toMatchObject({ format });
});
