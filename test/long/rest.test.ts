/** Real processes for which nothing happens: what they cost, and what they must notice all the same. */
import { expect, it } from "vitest";
import { Heartbeats } from "../../src/state/heartbeats.ts";
import { keysOf } from "../../src/state/keys.ts";
import { startDaemon, startSandbox } from "../support/crmsync.ts";
import { ownRedis, type OwnRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCrmsync } from "../support/process.ts";
import { waitFor } from "../support/wait-for.ts";
import { watchCommands } from "../support/watch-commands.ts";

const keys = keysOf("{crmsync}");
const REST_DEADLINE_MS = 180_000;

/** All processes rest: their heartbeats say that the next one follows late. */
async function rested({ client }: OwnRedis, processes: number): Promise<void> {
  await waitFor(
    async () => {
      const running = await new Heartbeats(client, keys).running();
      return running.length === processes && running.every(({ nextMs }) => nextMs !== undefined);
    },
    { deadlineMs: REST_DEADLINE_MS, what: "all processes rest" },
  );
}

it("processes that rest cost little, are not called silent, and miss nothing", async () => {
  await using sandbox = await startSandbox();
  await using redis = await ownRedis();
  const env = {
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  };
  await using first = await startDaemon(env);
  await using second = await startDaemon(env);
  const { client } = redis;
  const lastNameOf = async (crmCode: string) =>
    (await sandbox.relations()).get(crmCode)?.["lastName"];
  const arrives = (crmCode: string, lastName: string) =>
    waitFor(async () => (await lastNameOf(crmCode)) === lastName, {
      what: `${lastName} of ${crmCode} is on the service`,
    });
  await first.push([personEvent("back", { lastName: "One" })]);
  await arrives("back", "One");
  await waitFor(async () => (await client.zcard(keys.unsynced("live"))) === 0, { what: "settled" });
  const older = {
    age: await client.hgetall(keys.age),
    row: await client.hget(keys.ledger, "back"),
  };
  await second.push([personEvent("back", { lastName: "Two" })]);
  await arrives("back", "Two");

  await rested(redis, 2);
  // As many heartbeats of both as show the pace: each 20 s.
  const sent = new Map<string, number>();
  const watching = await watchCommands(client, ({ name, text }) => {
    sent.set("all", (sent.get("all") ?? 0) + 1);
    const isBeat = name.startsWith("eval") && text.includes(`"${keys.heartbeats}"`);
    if (isBeat) sent.set("beats", (sent.get("beats") ?? 0) + 1);
  });
  await waitFor(() => (sent.get("beats") ?? 0) >= 4, {
    deadlineMs: REST_DEADLINE_MS,
    what: "two heartbeats of each",
  });
  watching[Symbol.dispose]();
  // Between two heartbeats of a process pass 20 s: 2 commands a second are 40 for each.
  expect(sent.get("all")).toBeLessThan(4 * 40);
  const { findings } = await first.status();
  expect(findings.filter(({ runbook }) => runbook.includes("crmsyncdown"))).toEqual([]);

  // Redis has an older copy of all that, and no connection has ended: the ledger says One.
  await client.hset(keys.ledger, "back", String(older.row));
  await client.hset(keys.age, older.age);
  await second.push([personEvent("back", { lastName: "One" })]);
  await arrives("back", "One");
  expect(await client.exists(keys.wentBackwards)).toBe(1);

  // A lane that was paused meanwhile, a process that is killed, and access that is denied.
  await rested(redis, 2);
  const pause = spawnCrmsync(["bulk", "pause", "--reason", "test"], { env });
  expect((await pause.ended).code).toBe(0);
  await client.hset(
    keys.denial,
    "token",
    JSON.stringify({ since: Date.now(), address: "", next: Date.now() + 600_000, probes: 1 }),
  );
  first.process.kill("SIGKILL");
  await first.process.ended;
  await second.push([
    personEvent("bulk", { lastName: "Later" }, { lane: "bulk" }),
    personEvent("live", { lastName: "Denied" }),
  ]);
  await waitFor(async () => (await client.zcard(keys.unsynced("live"))) === 1, { what: "staged" });
  await waitFor(async () => (await client.zcard(keys.unsynced("bulk"))) === 1, { what: "staged" });
  expect(await lastNameOf("live")).toBe(undefined);
  await client.del(keys.denial);
  await arrives("live", "Denied");
  expect(await lastNameOf("bulk")).toBe(undefined);
  const resume = spawnCrmsync(["bulk", "resume"], { env });
  expect((await resume.ended).code).toBe(0);
  await arrives("bulk", "Later");
});
