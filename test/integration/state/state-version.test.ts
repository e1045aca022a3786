import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { Heartbeats } from "../../../src/state/heartbeats.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import {
  STATE_VERSION,
  StateVersion,
  StateVersionError,
  type Migration,
  type MigrationReport,
} from "../../../src/state/state-version.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let prefix: string;
let keys: Keys;

beforeEach(() => {
  prefix = uniquePrefix();
  keys = keysOf(prefix);
});

/** Sources by name, where version 1 kept them as they are. */
const upperCase: Migration = {
  name: "sources in capitals",
  async run(client, { sources }) {
    for (const [name, time] of Object.entries(await client.hgetall(sources))) {
      if (name === name.toUpperCase()) continue;
      await client.multi().hset(sources, name.toUpperCase(), time).hdel(sources, name).exec();
    }
  },
};

const plusOne: Migration = {
  name: "a day later",
  async run(client, { sources }) {
    for (const [name, time] of Object.entries(await client.hgetall(sources))) {
      if (!time.endsWith("+1")) await client.hset(sources, name, `${time}+1`);
    }
  },
};

const program = (...migrations: Migration[]) =>
  new StateVersion(redis, keys, new Heartbeats(redis, keys), { migrations, graceMs: 0 });

/** As a daemon left it that knew of no versions. */
const leaveOldState = () => redis.hset(keys.warmUp, "state", "done");

const versionFields = () => redis.hgetall(keys.stateVersion);

async function runningProcess(stateVersion?: number): Promise<void> {
  const said = { id: "host:1", version: "0.9.0", roles: ["sync"], startedAt: 1 };
  await new Heartbeats(redis, keys).beat({
    ...said,
    ...(stateVersion !== undefined && { stateVersion }),
  });
}

async function everything(): Promise<Record<string, string>> {
  const names = (await redis.keys(`${prefix}*`)).toSorted();
  const dumps = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
  return Object.fromEntries(names.map((name, n) => [name, dumps[n]?.toString("hex") ?? ""]));
}

it("an empty Redis gets the version of the program", async () => {
  await new StateVersion(redis, keys, new Heartbeats(redis, keys)).takeOver();
  expect(await versionFields()).toEqual({ version: String(STATE_VERSION) });
});

it("state without a version is version 1: taken over as it is, also beside processes without one", async () => {
  await redis.hset(keys.sources, "/crm", "5");
  await runningProcess();
  await program().takeOver();
  expect(await versionFields()).toEqual({ version: "1" });
  expect(await redis.hgetall(keys.sources)).toEqual({ "/crm": "5" });
});

it("an empty Redis is not migrated", async () => {
  const fails: Migration = { name: "fails", run: () => Promise.reject(new Error("migrated")) };
  await program(fails).require();
  await program(fails).takeOver();
  expect(await versionFields()).toEqual({ version: "2" });
});

it("an older state is migrated step by step, and only once", async () => {
  await redis.hset(keys.sources, "/crm", "5");
  await program().takeOver();
  const steps: MigrationReport[] = [];
  await program(upperCase, plusOne).takeOver((step) => void steps.push(step));
  expect(await redis.hgetall(keys.sources)).toEqual({ "/CRM": "5+1" });
  expect(await versionFields()).toEqual({ version: "3" });
  expect(steps).toEqual([
    { from: 1, to: 2, step: "sources in capitals" },
    { from: 2, to: 3, step: "a day later" },
  ]);
  await program(upperCase, plusOne).takeOver((step) => void steps.push(step));
  expect(steps).toHaveLength(2);
  expect(await redis.exists(keys.stateMigration)).toBe(0);
});

it("of several processes that start at once, one migrates and the others wait for it", async () => {
  const steps: MigrationReport[] = [];
  let migrating = 0;
  const slow: Migration = {
    name: "slow",
    async run() {
      migrating += 1;
      await waitFor(async () => (await redis.pttl(keys.stateMigration)) < 9500, { what: "500 ms" });
      expect(migrating).toBe(1);
    },
  };
  await leaveOldState();
  const starts = [1, 2, 3].map(() => program(slow).takeOver((step) => void steps.push(step)));
  await Promise.all(starts);
  expect(steps).toEqual([{ from: 1, to: 2, step: "slow" }]);
  expect(await versionFields()).toEqual({ version: "2" });
});

it("a migration that was interrupted keeps older programs out, and is continued", async () => {
  await leaveOldState();
  await redis.hset(keys.sources, "/crm", "5");
  const dies: Migration = { name: "dies", run: () => Promise.reject(new Error("killed")) };
  await expect(program(upperCase, dies).takeOver()).rejects.toThrow("killed");
  expect(await versionFields()).toEqual({ version: "2", target: "3" });
  await expect(program(upperCase).takeOver()).rejects.toThrow(/version 3, this .* version 2/);
  await program(upperCase, plusOne).takeOver();
  expect(await redis.hgetall(keys.sources)).toEqual({ "/CRM": "5+1" });
  expect(await versionFields()).toEqual({ version: "3" });
});

it("nothing is migrated under running processes of an older release", async () => {
  await redis.hset(keys.sources, "/crm", "5");
  await runningProcess();
  const before = await everything();
  await expect(program(upperCase).takeOver()).rejects.toThrow(
    /older release still run: host:1 \(0\.9\.0\)\. Stop them/,
  );
  expect(await everything()).toEqual(before);
  await runningProcess(2);
  await program(upperCase).takeOver();
  expect(await redis.hgetall(keys.sources)).toEqual({ "/CRM": "5" });
});

it("a newer state is rejected by everything that writes, and stays as it is", async () => {
  await redis.hset(keys.stateVersion, "version", 3);
  await redis.hset(keys.sources, "/crm", "5");
  const before = await everything();
  for (const attempt of [
    program(upperCase).takeOver(),
    program(upperCase).require(),
    program(upperCase).keep(),
  ]) {
    const error = await attempt.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StateVersionError);
    expect(String(error)).toMatch(/has version 3, this crmsync works with version 2: install/);
  }
  expect(await everything()).toEqual(before);
});

it("a command does not write to an older state, which only the daemon migrates", async () => {
  await leaveOldState();
  await redis.hset(keys.sources, "/crm", "5");
  await expect(program(upperCase).require()).rejects.toThrow(
    /has version 1, this .* version 2: start the daemon/,
  );
  expect(await versionFields()).toEqual({});
});

it("a running process writes the version into a Redis that was emptied", async () => {
  await program(upperCase).keep();
  expect(await versionFields()).toEqual({ version: "2" });
});
