import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { afterAll, expect, inject, onTestFinished, test } from "vitest";
import { openRedis } from "../../../src/base/open-redis.ts";
import { WorkRedis } from "../../../src/base/redis-script.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const DATABASE = 3;
const admin = new Redis(inject("redisUrl"));
afterAll(() => admin.disconnect());

/** A user that may do all but SELECT, and where it is refused. */
async function withoutSelect() {
  const user = `without-select-${randomUUID()}`;
  onTestFinished(async () => void (await admin.call("ACL", "DELUSER", user)));
  const rules = ["on", ">secret", "~*", "&*", "+@all", "-select"];
  await admin.call("ACL", "SETUSER", user, ...rules);
  const url = new URL(`/${DATABASE}`, inject("redisUrl"));
  url.username = user;
  url.password = "secret";
  return { url: url.href, allow: () => admin.call("ACL", "SETUSER", user, "+select") };
}

const target = (url: string) => ({ url, prefix: "tenant" });
const lazy = (url: string) => openRedis(target(url), { lazyConnect: true });
const ofQuota = ({ options }: Redis) =>
  new WorkRedis({ ...options, lazyConnect: false, replyMapping: "legacy" });

test.for([
  ["a client", (url: string) => openRedis(target(url))],
  ["a connection that BullMQ makes", (url: string) => lazy(url).duplicate({ lazyConnect: false })],
  ["the quota's client", (url: string) => ofQuota(lazy(url))],
] as const)("%s waits while its database is refused, and never uses another", async ([, open]) => {
  const { url, allow } = await withoutSelect();
  const redis = open(url);
  onTestFinished(() => redis.disconnect());
  const key = `${uniquePrefix()}:key`;
  const refusals = new Promise<void>((resolve) => {
    let count = 0;
    redis.on("error", ({ message }: Error) => {
      if (message.startsWith("NOPERM") && ++count === 3) resolve();
    });
  });
  const written = redis.set(key, "mine", "PX", 60_000).catch((error: Error) => error.message);
  await refusals;
  expect(await admin.exists(key)).toBe(0);
  await allow();
  // ioredis gives a command up after some tries; a worker's waits.
  if ((await written) !== "OK") await redis.set(key, "mine", "PX", 60_000);
  expect(await admin.exists(key)).toBe(0);
  await admin.select(DATABASE);
  onTestFinished(async () => void (await admin.select(0)));
  expect(await admin.get(key)).toBe("mine");
});
