import type { Redis } from "ioredis";
import { expect, it } from "vitest";
import { STATE_VERSION } from "../../src/core/state/state-version.ts";
import { startDaemon } from "../support/crmsync.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { localCrmsync } from "../support/local-command.ts";
import { spawnCrmsync } from "../support/process.ts";
import { waitFor } from "../support/wait-for.ts";

const NEWER = STATE_VERSION + 1;
const refusal = (has: string) =>
  `crmsync: the state in Redis has ${has}, this crmsync works with version ${STATE_VERSION}: `;
const REFUSED = refusal(`version ${NEWER}`);

async function everything(redis: Redis): Promise<Record<string, string>> {
  const names = (await redis.keys("*")).toSorted();
  const dumps = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
  return Object.fromEntries(names.map((name, n) => [name, dumps[n]?.toString("hex") ?? ""]));
}

it("a state of a newer release: no process works on it, and a running one ends", async () => {
  await using redis = await ownRedis();
  const env = { REDIS_URL: redis.url, HTTP_PORT: "0" };
  await using daemon = await startDaemon(env, ["--roles", "http,intake"]);
  expect((await daemon.push([personEvent("1", { firstName: "" })])).status).toBe(202);
  await waitFor(async () => (await redis.client.hlen("{crmsync}:dead-letters")) === 1, {
    what: "a dead letter",
  });
  expect(await redis.client.hget("{crmsync}:state-version", "version")).toBe(`${STATE_VERSION}`);

  await redis.client.hset("{crmsync}:state-version", "version", NEWER);
  expect((await daemon.process.ended).code).toBe(78);
  expect(daemon.process.stderr.join("\n")).toContain("state.other_version");

  const before = await everything(redis.client);
  const commands = [
    ["start", "--roles", "http,intake"],
    ["dead", "redrive", "--all", "--apply"],
    ["dead", "drop", "--all", "--apply"],
    ["ledger", "forget", "--apply"],
  ];
  const reading = [
    ["dead", "list"],
    ["why", "1"],
    ["held", "list"],
    ["status"],
    ["status", "--watch"],
    ["push", "examples/changes.ndjson"],
  ];
  for (const command of [...commands, ...reading, ["preview", "package.json"]]) {
    const begin = command[0] === "start" ? spawnCrmsync : localCrmsync;
    await using refused = begin(command, { env });
    expect((await refused.ended).code, command.join(" ")).toBe(78);
    expect(refused.stderr.at(-1), command.join(" ")).toContain(REFUSED);
  }
  // Keys may have expired meanwhile.
  expect(before).toMatchObject(await everything(redis.client));

  await redis.client.hdel("{crmsync}:state-version", "version");
  for (const command of commands) {
    await using refused = localCrmsync(command, { env });
    expect((await refused.ended).code, command.join(" ")).toBe(78);
    expect(refused.stderr.at(-1), command.join(" ")).toContain(refusal("no version"));
  }
  await redis.client.hset("{crmsync}:state-version", "version", NEWER);

  // Without it, the doctor would only ask to start a process, which cannot start.
  await using doctor = localCrmsync(["doctor"], { env });
  expect((await doctor.ended).code).toBe(1);
  expect(doctor.stdout.join("\n")).toMatch(
    new RegExp(`✗ fail state version +the state in Redis has version ${NEWER}, this crmsync works`),
  );
});
