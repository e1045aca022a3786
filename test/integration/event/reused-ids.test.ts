/** Senders that give two changes one id. */
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { Inbox } from "../../../src/core/event/inbox.ts";
import { waitUntilSettled } from "../../support/crmsync.ts";
import { localDaemon, localSandbox } from "../../support/in-process.ts";
import { personEvent } from "../../support/person-event.ts";
import { envFor } from "../../support/tenant-env.ts";
import type { Story } from "../../../src/people/history/story.ts";

const connected = (url: string) => {
  const client = new Redis(url, { maxRetriesPerRequest: null });
  return { client, [Symbol.asyncDispose]: async () => client.disconnect() };
};

const TOKEN = "operator-token-of-24-characters";

test("a change with the id of another one is sent, and told; a second delivery is not", async () => {
  await using sandbox = await localSandbox();
  const env = envFor(sandbox, { OPERATOR_TOKEN: TOKEN, INGEST_AUTH: "none" });
  await using daemon = await localDaemon(env);
  const post = async (...events: object[]) => {
    const headers = { "content-type": "application/cloudevents-batch+json" };
    const body = JSON.stringify(events);
    const response = await fetch(`${daemon.url}/events`, { method: "POST", headers, body });
    return response.json();
  };
  const event = (lastName: string, time: string) =>
    personEvent("4711", { lastName }, { id: "same", time });
  const old = event("Old", "2026-11-20T09:30:11Z");
  const changed = event("New", "2026-11-20T09:31:00Z");
  const late = event("Oldest", "2026-11-20T09:29:00Z");

  expect(await post(old, changed)).toEqual({ accepted: 2, duplicates: 0 });
  await waitUntilSettled(daemon);
  expect(await post(old, changed)).toEqual({ accepted: 0, duplicates: 2 });
  expect(await post(late)).toEqual({ accepted: 1, duplicates: 0 });
  // As another client of BullMQ adds it.
  await using redis = connected(env.REDIS_URL);
  const inbox = new Inbox(redis.client, env.QUEUE_PREFIX);
  await inbox.push([changed]);
  await inbox.close();
  await waitUntilSettled(daemon);
  expect((await sandbox.relations()).get("4711")).toMatchObject({ lastName: "New" });

  const response = await fetch(`${daemon.url}/records/4711`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const { steps } = (await response.json()) as Story;
  const events = steps.filter(({ kind }) => kind === "event").map(({ says }) => says);
  expect(events.filter((says) => /another event had the same source and id/.test(says))).toEqual([
    expect.stringMatching(/superseded/),
    expect.stringMatching(/^event updated/),
  ]);
  expect(events).toHaveLength(3);
  await expect
    .poll(async () => (await daemon.status()).findings.map(({ says }) => says))
    .toContainEqual(expect.stringMatching(/2 events had the source \/crm\/test and an id of an/));
});
