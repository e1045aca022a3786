/** Several states in one call: each has the fate that it has alone. */
import { randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { afterAll, expect, inject, onTestFinished, test } from "vitest";
import { History } from "../../../src/state/history.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { storeRow } from "../../../src/state/ledger-row.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import type { StateToStage } from "../../../src/sync/staged-state.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

function newTenant(): { keys: Keys; staged: StagedStates } {
  const keys = keysOf(uniquePrefix());
  const history = new History(redis, keys, 30);
  return { keys, staged: new StagedStates(redis, keys, new Sealing([]), { history }) };
}

const change = (crmCode: string, order: string, extra: Partial<StateToStage> = {}) =>
  ({
    crmCode,
    eventKey: `${crmCode}-${order}`,
    order,
    payload: `payload ${order}`,
    fingerprint: `f-${order}`,
    variant: "Person",
    status: "mapped",
    lane: "live",
    time: 1000,
    event: `event ${order}`,
    noted: {
      event: {
        source: "/crm/acme",
        id: `${crmCode}-${order}`,
        type: "updated",
        subject: `contact/${crmCode}`,
        time: 1000,
        warnings: [],
        redriven: false,
      },
      ignored: undefined,
    },
    ...extra,
  }) satisfies StateToStage;

const proven = storeRow({
  exists: true,
  uncertain: false,
  fingerprint: "f-2",
  terminated: false,
  variant: "Person",
  watermark: "1",
  provedAt: 1,
});

/** Two events of one record in either order, a copy, lanes, deletions, what the ledger proves. */
const MIXED: readonly StateToStage[] = [
  change("new", "2"),
  change("reversed", "3"),
  change("reversed", "2"),
  change("newer", "2"),
  change("newer", "3"),
  change("newer", "3"),
  change("proven", "2"),
  change("proven", "3", { lane: "bulk" }),
  change("promoted", "2", { lane: "bulk" }),
  change("promoted", "3"),
  change("deleted", "2"),
  change("deleted", "3", { payload: undefined, fingerprint: undefined, status: "terminated" }),
  change("merged", "2", { eventKey: "" }),
  change("merged", "2", { eventKey: "" }),
  ...Array.from({ length: 30 }, (_, n) => change(`more${n}`, "2")),
];

/** Everything about these records; numbers of states and times differ from run to run. */
async function endOf({ keys, staged }: ReturnType<typeof newTenant>): Promise<unknown> {
  const codes = [...new Set(MIXED.map(({ crmCode }) => crmCode))];
  const seen = await staged.seen(MIXED.map(({ eventKey }) => eventKey));
  const lanes = [keys.unsynced("live"), keys.unsynced("bulk")];
  const records = codes.map(async (code) => {
    const { a1: _, v: __, ...hash } = await redis.hgetall(keys.staged(code));
    const fields = Object.entries(hash).filter(([name]) => !name.startsWith("hi"));
    const steps = await new History(redis, keys, 30).read({ crmCode: code });
    return [code, fields, steps.map((step) => ({ ...step, at: 0 }))];
  });
  return {
    records: await Promise.all(records),
    seen: [...seen].toSorted(),
    lanes: await Promise.all(
      lanes.map(async (key) => (await redis.zrange(key, "0", "-1")).toSorted()),
    ),
    ledger: Object.entries(await redis.hgetall(keys.ledger)).map(([code, row]) => [
      code,
      { ...(JSON.parse(row) as object), s: 0 },
    ]),
  };
}

test("states that are staged together end as if each was staged alone", async () => {
  const [together, alone] = [newTenant(), newTenant()];
  for (const { keys } of [together, alone]) await redis.hset(keys.ledger, "proven", proven);
  const results = await together.staged.stageAll(MIXED);
  const expected = [];
  for (const state of MIXED) expected.push(await alone.staged.stage(state));
  expect(results).toEqual(expected);
  expect(await endOf(together)).toEqual(await endOf(alone));
  expect(expected.slice(0, 8).map(({ result }) => result)).toEqual([
    "staged",
    "staged",
    "superseded",
    "staged",
    "staged",
    "duplicate",
    "unchanged",
    "staged",
  ]);
});

test("what is wrong with one record does not keep the others; it is staged once it is put right", async () => {
  const { keys, staged } = newTenant();
  await redis.hset(keys.ledger, "damaged", "{");
  const states = [change("a", "2"), change("damaged", "2"), change("b", "2")];
  const [first, damaged, last] = await staged.stageAll(states);
  expect([first, last]).toMatchObject([{ result: "staged" }, { result: "staged" }]);
  expect(damaged).toBeInstanceOf(Error);
  await redis.hdel(keys.ledger, "damaged");
  const again = await staged.stageAll(states);
  expect(again).toMatchObject([
    { result: "duplicate" },
    { result: "staged" },
    { result: "duplicate" },
  ]);
});

/** Notes which records each script call is about. */
class CountingRedis extends Redis {
  readonly calls: string[][] = [];

  override sendCommand(...args: Parameters<Redis["sendCommand"]>): unknown {
    const [{ name, args: values }] = args;
    if (name === "evalsha") {
      this.calls.push(values.map(String).filter((value) => /^(large|small)\d+$/.test(value)));
    }
    return super.sendCommand(...args);
  }
}

test("neither large states nor many hold Redis in one call", async () => {
  const own = new CountingRedis(inject("redisUrl"), { maxRetriesPerRequest: null });
  onTestFinished(() => own.disconnect());
  await own.ping();
  const staged = new StagedStates(own, keysOf(uniquePrefix()), new Sealing([]));
  // Bytes at random cannot be packed smaller than this.
  const large = { payload: randomBytes(150_000).toString("base64") };
  const small = Array.from({ length: 30 }, (_, n) => change(`small${n}`, "2"));
  const results = await staged.stageAll([
    change("large1", "2", large),
    change("large2", "2", large),
    ...small,
  ]);
  expect(results).toHaveLength(32);
  const codes = small.map(({ crmCode }) => crmCode);
  expect(own.calls).toEqual([["large1"], ["large2", ...codes.slice(0, 24)], codes.slice(24)]);
});

/** Loses one script call when it is told to. */
class LossyRedis extends Redis {
  losesNext = false;

  override sendCommand(...args: Parameters<Redis["sendCommand"]>): unknown {
    const [command] = args;
    if (this.losesNext && command.name.startsWith("eval")) {
      this.losesNext = false;
      command.reject(new Error("Connection is closed."));
      return command.promise;
    }
    return super.sendCommand(...args);
  }
}

test("a script call without a reply fails its own states only", async () => {
  const { keys } = newTenant();
  const lossy = new LossyRedis(inject("redisUrl"));
  onTestFinished(() => lossy.disconnect());
  const staged = new StagedStates(lossy, keys, new Sealing([]), {
    history: new History(lossy, keys, 30),
  });
  await lossy.ping();
  lossy.losesNext = true;
  const results = await staged.stageAll(
    Array.from({ length: 60 }, (_, n) => change(`r${n}`, `${n}`)),
  );
  const failed = results.flatMap((result, n) => (result instanceof Error ? [n] : []));
  expect(failed).toEqual(Array.from({ length: 25 }, (_, n) => n));
  expect(results.at(-1)).toMatchObject({ result: "staged" });
});
