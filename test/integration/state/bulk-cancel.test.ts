/** What `crmsync bulk cancel` drops, what it leaves, and what is believed of the service afterwards. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { cancelBulk, viewCancel } from "../../../src/whole/pause-bulk.ts";
import { readConfig } from "../../../src/base/config.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import type { TakenState } from "../../../src/core/sync/run.ts";
import { editStaged, passTime, ordersAt, rowAt } from "../../support/stores-of.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { spawnCrmsync } from "../../support/process.ts";
import { slowNetwork } from "../../support/slow-network.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

function newStores(prefix = uniquePrefix()): Stores {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const stores = openStores(readConfig({ QUEUE_PREFIX: prefix }), redis);
  onTestFinished(() => stores.close());
  // As a daemon does, before anything else.
  void stores.stateVersion.keep().catch(() => {});
  return stores;
}

const state = (crmCode: string, order: number, more: Partial<StateToStage> = {}): StateToStage => ({
  crmCode,
  eventKey: `${crmCode}-${order}`,
  order: `o${order}`,
  payload: JSON.stringify({ crmCode, order }),
  fingerprint: `fp${order}`,
  variant: "Person",
  status: "mapped",
  lane: "bulk",
  time: order,
  event: "{}",
  ...more,
});

const stage = async (stores: Stores, ...states: readonly StateToStage[]) => {
  const results = await Promise.all(states.map((one) => stores.staged.stage(one)));
  return results.map(({ result }) => result);
};

async function take({ staged }: Stores, crmCode: string, holdMs = 60_000): Promise<TakenState> {
  const taken = await staged.take(crmCode, "worker", holdMs);
  if (taken.kind !== "taken") throw new Error(`${crmCode}: ${taken.kind}`);
  return taken.state;
}

/** The record may be taken again: its hold has ended. */
const endHold = (stores: Stores, crmCode: string) => passTime(stores, crmCode);

/** The records among these that wait, in order of their turn. */
const inLines = async ({ keys, redis }: Stores) => ({
  live: await redis.zrange(keys.line("live"), "0", "-1"),
  bulk: await redis.zrange(keys.line("bulk"), "0", "-1"),
});

const cancel = async (stores: Stores) =>
  cancelBulk(stores, await viewCancel(stores), { by: "ada@test" });

test("the history of a dropped change says so", async () => {
  const stores = newStores();
  await stage(stores, state("a", 1));
  await cancel(stores);
  expect(await stores.history.read({ crmCode: "a" })).toMatchObject([
    { kind: "act", act: "bulk.cancel" },
  ]);
});

test("what waits in the lane is dropped, and nothing else", async () => {
  const stores = newStores();
  const { keys, redis, staged } = stores;
  await stage(
    stores,
    ...["waits", "promoted", "underway", "held"].map((crmCode) => state(crmCode, 1)),
    state("live", 1, { lane: "live" }),
  );
  await stage(stores, state("promoted", 2, { lane: "live" }));
  const underWay = await take(stores, "underway");
  await stage(stores, state("underway", 2));
  const held = await take(stores, "held");
  await staged.settle(held, { row: "before", finished: false, held: { why: "limit" } });

  expect(await cancel(stores)).toEqual({ dropped: 1, busy: 1, plan: undefined });
  const waiting = await staged.waiting(["waits", "promoted", "underway", "held", "live"]);
  expect(waiting.map((one) => one?.status.order)).toEqual([undefined, "o2", "o2", "o1", "o1"]);
  expect(await redis.zcard(keys.heldTerminations)).toBe(1);
  expect(await inLines(stores)).toEqual({ live: ["live", "promoted"], bulk: [] });
  expect(await redis.zrange(keys.later, "0", "-1")).toEqual(["underway"]);
  // The one that was under way ends as it would; what came meanwhile goes with the next call.
  const row = rowAt("o1", "fp1");
  expect(await staged.settle(underWay, { row, finished: true })).toBe("more");
  expect(await cancel(stores)).toMatchObject({ dropped: 1, busy: 0 });
  expect(await stores.ledger.row("underway")).toMatchObject({ fingerprint: "fp1" });
  expect(await stores.bulkChanges.takeCount()).toBe(2);
  expect(await stores.bulkChanges.takeCount()).toBe(0);
});

test("a live change that the import has overtaken is not dropped with it", async () => {
  const stores = newStores();
  await stage(stores, state("a", 2));
  expect(await stage(stores, state("a", 1, { lane: "live" }))).toEqual(["superseded"]);
  expect(await inLines(stores)).toEqual({ live: ["a"], bulk: [] });
  expect(await cancel(stores)).toMatchObject({ dropped: 0, busy: 0 });
  expect((await take(stores, "a")).orders.status).toBe("o2");
});

test("the ledger does not say that the dropped state is there, and its event may come again", async () => {
  const stores = newStores();
  await stage(stores, state("known", 1));
  const first = await take(stores, "known");
  const row = rowAt("o1", "fp1");
  await stores.staged.settle(first, { row, finished: true });
  await stage(stores, state("known", 2), state("new", 2));
  expect(await cancel(stores)).toMatchObject({ dropped: 2 });
  expect(await stores.ledger.row("known")).toMatchObject({
    fingerprint: "fp1",
    orders: ordersAt("o1"),
  });
  expect(await stores.ledger.row("new")).toBeUndefined();
  // The same import again: not duplicates, not unchanged.
  expect(await stage(stores, state("known", 2), state("new", 2))).toEqual(["staged", "staged"]);
  await cancel(stores);
  // Equal content by another event; and content that the service has costs no request, as ever.
  const again = state("known", 3, { fingerprint: "fp2" });
  expect(await stage(stores, again, state("known", 4, { fingerprint: "fp1" }))).toEqual([
    "staged",
    "unchanged",
  ]);
});

test("the event that brought the fields may come again, too", async () => {
  const stores = newStores();
  const deleted = { status: "terminated", payload: undefined, fingerprint: undefined } as const;
  const events = [
    state("a", 1),
    state("a", 2, deleted),
    state("a", 3, deleted),
    // Late: its fields are the newest, its status is not.
    state("b", 2, { ...deleted, status: "active" }),
    state("b", 1),
  ];
  for (const event of events) expect(await stage(stores, event)).toEqual(["staged"]);
  await cancel(stores);
  for (const event of [events[0], events[2], events[3], events[4]])
    expect(await stage(stores, event as StateToStage)).toEqual(["staged"]);
  // This one was replaced before: nothing of it was dropped.
  expect(await stage(stores, events[1] as StateToStage)).toEqual(["duplicate"]);
});

test("a request that may still arrive is not forgotten", async () => {
  const stores = newStores();
  const { staged } = stores;
  await stage(stores, state("crashed", 1), state("timeout", 1));
  // Its worker died, and the hold has expired.
  await take(stores, "crashed", 1);
  await endHold(stores, "crashed");
  const timeout = await take(stores, "timeout");
  const settled = { row: "unknown", finished: false, openMs: 50_000 } as const;
  await staged.settle(timeout, settled);

  expect(await cancel(stores)).toMatchObject({ dropped: 2, busy: 0 });
  // The same content: whether it is there is not known, so it is sent.
  expect(await stage(stores, state("crashed", 1), state("timeout", 1))).toEqual([
    "staged",
    "staged",
  ]);
  expect((await take(stores, "crashed")).row.openUntil).toBeDefined();
  expect(await staged.take("timeout", "worker", 1)).toMatchObject({ kind: "busy" });
  await endHold(stores, "timeout");
  expect((await take(stores, "timeout")).row.openUntil).toBeDefined();
});

test("what comes after the question was asked stays, also when it comes in between", async () => {
  const stores = newStores();
  const { bulkChanges } = stores;
  await stage(stores, state("old", 1), state("raced", 1), state("again", 1));
  const view = await viewCancel(stores);
  // Also a newer change of a record that waited already.
  await stage(stores, state("new", 1), state("again", 2));
  const drop = bulkChanges.drop.bind(bulkChanges);
  bulkChanges.drop = async (...page) => {
    await stage(stores, state("raced", 2, { lane: "live" }));
    return drop(...page);
  };
  expect(await cancelBulk(stores, view, { by: "ada@test" })).toMatchObject({ dropped: 1 });
  const { live, bulk } = await inLines(stores);
  expect({ live, bulk: bulk.toSorted() }).toEqual({ live: ["raced"], bulk: ["again", "new"] });
});

test("a termination that a person has released is not dropped", async () => {
  const stores = newStores();
  const { keys, redis } = stores;
  await stage(stores, state("released", 1, { status: "terminated" }), state("other", 1));
  await editStaged(stores, "released", (staged) => ({ ...staged, approved: true }));
  expect(await cancel(stores)).toMatchObject({ dropped: 1 });
  expect(await redis.exists(keys.staged("released"))).toBe(1);
});

test("a command that was killed in the middle is run again, and each change is counted once", async () => {
  const prefix = uniquePrefix();
  const stores = newStores(prefix);
  const { keys, redis } = stores;
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: prefix };
  await using asked = localCrmsync(["bulk", "cancel"], { env });
  const count = 3000;
  for (let from = 0; from < count; from += 500)
    await stage(stores, ...Array.from({ length: 500 }, (_, n) => state(`b${from + n}`, 1)));
  expect((await asked.ended).code).toBe(2);
  expect(asked.stderr.join()).toContain("give --yes");
  {
    await using network = await slowNetwork(env.REDIS_URL);
    network.delayMs = 20;
    const far = { ...env, REDIS_URL: network.url };
    await using killed = spawnCrmsync(["bulk", "cancel", "--yes"], { env: far });
    await waitFor(async () => (await redis.zcard(keys.line("bulk"))) < count, {
      what: "it has begun",
    });
    killed.kill("SIGKILL");
    await killed.ended;
  }
  const left = await redis.zcard(keys.line("bulk"));
  expect(left).toBeGreaterThan(0);
  await using again = localCrmsync(["bulk", "cancel", "--yes", "--json"], { env });
  expect((await again.ended).code).toBe(0);
  expect(JSON.parse(again.stdout.join(""))).toMatchObject({ dropped: left, busy: 0, plan: null });
  expect(await redis.zcard(keys.line("bulk"))).toBe(0);
  expect(await stores.bulkChanges.takeCount()).toBe(count);
  expect(await inLines(stores)).toEqual({ live: [], bulk: [] });
});
