/** One address of a provider: its primary becomes a replica, and only new connections lead to the new one. */
import { expect, onTestFinished, test } from "vitest";
import { openRedis, openWorkRedis } from "../../../src/base/open-redis.ts";
import { redisWrite } from "../../../src/base/redis-script.ts";
import { ownRedis, type OwnRedis } from "../../support/own-redis.ts";
import { tcpSwitch } from "../../support/tcp-switch.ts";
import { waitFor } from "../../support/wait-for.ts";

const portOf = ({ url }: OwnRedis): number => Number(new URL(url).port);

async function pair(stack: AsyncDisposableStack) {
  const first = stack.use(await ownRedis());
  const second = stack.use(await ownRedis({ replicaof: `127.0.0.1 ${portOf(first)}` }));
  await waitFor(async () => (await first.client.wait(1, 0)) === 1, { what: "the replica follows" });
  return { first, second };
}

async function swap(first: OwnRedis, second: OwnRedis): Promise<void> {
  await second.client.call("REPLICAOF", "NO", "ONE");
  await first.client.replicaof("127.0.0.1", portOf(second));
}

test("a command that the demoted primary refuses is sent to the new one, over every kind of client", async () => {
  await using stack = new AsyncDisposableStack();
  const { first, second } = await pair(stack);
  const address = stack.use(await tcpSwitch(first.url));
  const target = { url: address.url, prefix: "{acme}" };
  const clients = [openRedis(target), openWorkRedis(target)];
  // As BullMQ and the quota make connections of their own.
  clients.push(...clients.map((client) => client.duplicate()));
  onTestFinished(() => {
    for (const client of clients) client.disconnect();
  });
  for (const client of clients) await client.set("before", "1");
  const writes = clients.map((client) => redisWrite(client));
  await Promise.all(writes.map((write) => write("SET", "script", "1")));

  await expect.poll(() => second.client.dbsize()).toBe(2);
  await swap(first, second);
  address.moveNewTo(second.url);
  // Many at once, of which each is refused.
  const replies = await Promise.all(
    clients.flatMap((client, n) => [
      ...Array.from({ length: 20 }, (_, i) => client.set(`after ${n} ${i}`, "1")),
      Promise.resolve(writes[n]?.("SET", `script ${n}`, "1")),
    ]),
  );
  expect(replies).toEqual(replies.map(() => "OK"));
  expect(await second.client.dbsize()).toBe(2 + clients.length * 21);
});

test("while the address leads to a replica, commands wait, and the error says what it is", async () => {
  await using stack = new AsyncDisposableStack();
  const { first, second } = await pair(stack);
  const address = stack.use(await tcpSwitch(second.url));
  const client = openWorkRedis({ url: address.url, prefix: "{acme}" });
  const errors: string[] = [];
  client.on("error", ({ message }: Error) => errors.push(message));
  onTestFinished(() => client.disconnect());
  const written = client.set("key", "1");
  await waitFor(() => errors.length > 1, { what: "it has tried twice" });
  expect(new Set(errors)).toEqual(
    new Set(["READONLY this Redis is a replica; the address must lead to its primary"]),
  );
  address.moveTo(first.url);
  expect(await written).toBe("OK");
});
