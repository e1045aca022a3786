import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import type { TestProject } from "vitest/node";
import { startEmbeddedRedis } from "../../src/ops/embedded-redis.ts";
import { NoRedisServer } from "../../src/ops/find-redis-server.ts";
import { startRedisContainer } from "./redis-container.ts";

declare module "vitest" {
  export interface ProvidedContext {
    redisUrl: string;
  }
}

interface TestRedis {
  url: string;
  stop(): Promise<void>;
}

// One server for all projects of a run: this module is loaded once.
let shared: Promise<TestRedis> | undefined;
let users = 0;

export async function setup(project: TestProject): Promise<void> {
  users += 1;
  shared ??= provideRedis();
  project.provide("redisUrl", (await shared).url);
}

export async function teardown(): Promise<void> {
  users -= 1;
  const redis = await shared?.catch(() => undefined); // then the setup has failed and said so
  if (users === 0) await redis?.stop();
}

/** REDIS_URL, else an own redis-server, else a container; TEST_REDIS=testcontainers: a container. */
async function provideRedis(): Promise<TestRedis> {
  if (process.env["TEST_REDIS"] === "testcontainers") return startRedisContainer();
  const given = process.env["REDIS_URL"];
  if (given !== undefined && given !== "") return { url: given, stop: async () => {} };
  try {
    return await startOwnServer();
  } catch (error) {
    if (!(error instanceof NoRedisServer)) throw error;
    try {
      return await startRedisContainer();
    } catch (cause) {
      throw new Error(`${error.message}\n  - Or start a Docker engine.`, { cause });
    }
  }
}

async function startOwnServer(): Promise<TestRedis> {
  const dataDir = await mkdtemp(join(tmpdir(), "crmsync-test-"));
  const log = pino({ level: "warn" }, pino.destination(2));
  const remove = async () => rm(dataDir, { recursive: true, force: true, maxRetries: 10 });
  try {
    const redis = await startEmbeddedRedis({ dataDir, log });
    return {
      url: redis.url,
      async stop() {
        await redis.close();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}
