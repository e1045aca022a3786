/** Heartbeats in a real Redis: what processes say of themselves, and what a beat costs. */
import { hostname } from "node:os";
import { expect, test } from "vitest";
import { Heartbeats } from "../../../src/core/state/heartbeats.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { steppingRedis } from "../../support/shifted-clock.ts";

const KEYS = keysOf("{beat}");
const SETTINGS = { MAPPING: "x".repeat(1000) };

test("what stays the same is written once, and again when it has changed", async () => {
  await using own = await ownRedis({ appendonly: "yes", "auto-aof-rewrite-percentage": "0" });
  const heartbeats = new Heartbeats(own.client, KEYS);
  const writtenBy = async (settings: Record<string, string>, pingMs: number) => {
    const sizeOf = async () =>
      Number(/aof_current_size:(\d+)/.exec(await own.client.info("persistence"))?.[1]);
    const before = await sizeOf();
    const roles = ["sync"];
    await heartbeats.beat({ id: "a:1", version: "1", roles, startedAt: 1, pingMs, settings });
    return (await sizeOf()) - before;
  };
  expect(await writtenBy(SETTINGS, 0.1)).toBeGreaterThan(1000);
  expect(await writtenBy(SETTINGS, 0.2)).toBeLessThan(300);
  expect(await heartbeats.running()).toMatchObject([
    { id: "a:1", pingMs: 0.2, settings: SETTINGS },
  ]);

  const changed = { MAPPING: "y".repeat(1000) };
  expect(await writtenBy(changed, 0.3)).toBeGreaterThan(1000);
  expect(await heartbeats.running()).toMatchObject([{ id: "a:1", settings: changed }]);
  await heartbeats.leave("a:1");
  expect(await own.client.exists(KEYS.heartbeats)).toBe(0);
});

test("a process that ended an hour ago is forgotten", async (context) => {
  await using own = await steppingRedis(context);
  const heartbeats = new Heartbeats(own.client, KEYS);
  const about = { version: "1", roles: ["sync"], startedAt: 1 };
  await heartbeats.beat({ id: "old:1", ...about });
  own.setClock(3_590_000);
  await heartbeats.beat({ id: "new:1", ...about });
  expect(await own.client.hlen(KEYS.heartbeats)).toBe(4);
  own.setClock(3_610_000);
  await heartbeats.beat({ id: "new:1", ...about });
  expect((await heartbeats.running()).map(({ id }) => id)).toEqual(["new:1"]);
  expect((await own.client.hkeys(KEYS.heartbeats)).toSorted()).toEqual(["new:1", "new:1@"]);
});

test("processes with one host name and process id, as in containers on the host's network, are told apart", async () => {
  await using own = await ownRedis();
  const heartbeats = new Heartbeats(own.client, KEYS);
  const names = await Promise.all(
    ["first", "second"].map(async (one) => {
      const address = new URL(`../../../workers/audit-trail.ts?${one}`, import.meta.url).href;
      return ((await import(address)) as { readonly thisProcess: string }).thisProcess;
    }),
  );
  for (const id of names) {
    expect(id).toMatch(new RegExp(`^${hostname()}:${process.pid}-[0-9a-f]{4}$`));
    await heartbeats.beat({ id, version: "1", roles: ["sync"], startedAt: 1 });
  }
  expect(await heartbeats.running()).toHaveLength(2);
  await heartbeats.leave(names[0] ?? "");
  expect(await heartbeats.running()).toMatchObject([{ id: names[1] }]);
});
