import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { keysOf, type Keys } from "../../../src/core/state/keys.ts";
import {
  STATE_VERSION,
  StateVersion,
  StateVersionError,
} from "../../../src/core/state/state-version.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let program: StateVersion;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  program = new StateVersion(redis, keys);
});

const versionFields = () => redis.hgetall(keys.stateVersion);

it("an empty Redis gets the version of the program, also when many start at once", async () => {
  expect(await program.check()).toBe(false);
  expect(await versionFields()).toEqual({});
  const start = async () => {
    await program.require();
    await redis.hset(keys.heartbeats, "host:1", "{}");
  };
  await Promise.all(Array.from({ length: 20 }, start));
  expect(await versionFields()).toEqual({ version: String(STATE_VERSION) });
  expect(await program.check()).toBe(true);
});

it.for(["0", "1", "3"])("a state of version %s is refused, and stays as it is", async (version) => {
  await redis.hset(keys.stateVersion, "version", version);
  for (const attempt of [program.check(), program.require(), program.keep()]) {
    const error = await attempt.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StateVersionError);
    expect(String(error)).toContain(
      `the state in Redis has version ${version}, this crmsync works with version 2: install the release that wrote it`,
    );
  }
  expect(await versionFields()).toEqual({ version });
});

it.for(["warmUp", "heartbeats", "ledger", "deadLetters"] as const)(
  "a state without a version is refused where %s is known, and stays as it is",
  async (name) => {
    await redis.hset(keys[name], "a", "b");
    for (const attempt of [program.check(), program.require()]) {
      await expect(attempt).rejects.toThrow("has no version, this crmsync works with version 2");
    }
    expect(await versionFields()).toEqual({});
  },
);

it("a running process writes the version into a Redis that was emptied", async () => {
  await redis.hset(keys.heartbeats, "host:1", "{}");
  await program.keep();
  expect(await versionFields()).toEqual({ version: String(STATE_VERSION) });
});
