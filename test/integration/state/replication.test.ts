import { expect, it } from "vitest";
import { Replication } from "../../../src/core/state/redis-health.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { waitFor } from "../../support/wait-for.ts";

it("what was written is on a replica; a replica that hangs, or none, delays no sender", async () => {
  await using primary = await ownRedis();
  await using replica = await ownRedis({
    replicaof: `127.0.0.1 ${new URL(primary.url).port}`,
  });
  const { client } = primary;
  // A replica has what was there at its start before the primary calls it online.
  const follows = async () => {
    await client.incr("probe");
    return (await client.wait(1, 1000)) === 1;
  };
  await waitFor(follows, { what: "the replica follows" });
  let late = 0;
  const replication = new Replication(client, () => (late += 1));
  for (let n = 0; n < 50; n += 1) {
    await client.set("key", n);
    await replication.confirm();
    expect(await replica.client.get("key")).toBe(String(n));
  }
  // All that are written at once are confirmed by one question.
  const asked = await callsOfWait();
  await Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      await client.set(`key${n}`, n);
      await replication.confirm();
    }),
  );
  expect((await callsOfWait()) - asked).toBeLessThan(10);
  expect(late).toBe(0);

  replica.signal("SIGSTOP");
  await client.set("key", "late");
  await replication.confirm();
  expect(late).toBe(1);
  const before = await callsOfWait();
  for (let n = 0; n < 50; n += 1) await replication.confirm();
  expect(await callsOfWait()).toBe(before);

  await using single = await ownRedis();
  await new Replication(single.client, () => (late += 1)).confirm();
  expect(await single.client.info("commandstats")).not.toContain("cmdstat_wait");
  expect(late).toBe(1);

  async function callsOfWait(): Promise<number> {
    const [, calls = "0"] =
      /cmdstat_wait:calls=(\d+)/.exec(await client.info("commandstats")) ?? [];
    return Number(calls);
  }
});
