import { expect, onTestFinished, test } from "vitest";
import { LeaseRedis } from "../../../src/quota/lease-redis.ts";

test("While Redis is away, heartbeats do not wait for it", () => {
  const redis = new LeaseRedis({ port: 1, lazyConnect: true });
  onTestFinished(() => redis.disconnect());
  redis.isWaiting = () => true;
  redis.defineCommand("heartbeat", { lua: "local now = tonumber(ARGV[1])" });
  const { heartbeat } = redis as unknown as {
    heartbeat: (count: number, callback: (error: unknown, reply: unknown) => void) => void;
  };
  let answer: unknown;
  heartbeat(0, (...given) => (answer = given));
  expect(answer).toEqual([null, []]);
});
