import type { TestProject } from "vitest/node";
import { NoRedisServer } from "../../src/base/find-redis-server.ts";
import { ownRedis } from "./own-redis.ts";
import { startRedisContainer } from "./redis-container.ts";

declare module "vitest" {
  export interface ProvidedContext {
    redisUrl: string;
  }
}

interface TestRedis {
  url: string;
  stop(): PromiseLike<void>;
}

// This module is loaded once per run, so all projects share one server.
let shared: Promise<TestRedis> | undefined;
let users = 0;

export async function setup(project: TestProject): Promise<void> {
  users += 1;
  shared ??= provideRedis();
  project.provide("redisUrl", (await shared).url);
}

export async function teardown(): Promise<void> {
  users -= 1;
  const redis = await shared?.catch(() => undefined); // the setup has reported that error
  if (users === 0) await redis?.stop();
}

/** REDIS_URL, else our own redis-server, else a container; TEST_REDIS=testcontainers: a container. */
async function provideRedis(): Promise<TestRedis> {
  if (process.env["TEST_REDIS"] === "testcontainers") return startRedisContainer();
  const given = process.env["REDIS_URL"];
  if (given !== undefined && given !== "") return { url: given, stop: async () => {} };
  try {
    const redis = await ownRedis();
    return { url: redis.url, stop: () => redis[Symbol.asyncDispose]() };
  } catch (error) {
    if (!(error instanceof NoRedisServer)) throw error;
    try {
      return await startRedisContainer();
    } catch (cause) {
      throw new Error(`${error.message}\n  - Or start a Docker engine.`, { cause });
    }
  }
}
