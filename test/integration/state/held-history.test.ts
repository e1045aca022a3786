/** The history of a change that waits, while it has one step: it lies in the staged hash. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, test } from "vitest";
import { BulkChanges } from "../../../src/state/bulk-changes.ts";
import { HeldTerminations } from "../../../src/state/held-terminations.ts";
import { History } from "../../../src/state/history.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { storeRow } from "../../../src/state/ledger-row.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { SettledLately } from "../../../src/state/settled-lately.ts";
import { StagedStates } from "../../../src/state/staged-state.ts";
import type { StateToStage, TakenState } from "../../../src/sync/staged-state.ts";
import type { RunStep } from "../../../src/sync/step.ts";
import { notedEventOf } from "../../support/noted-event.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const DAY_MS = 86_400_000;
const CODE = "c-4711";
const SEALING = new Sealing([]);

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let keys: Keys;
let history: History;
let staged: StagedStates;

beforeEach(() => {
  keys = keysOf(uniquePrefix());
  history = new History(redis, keys, 30);
  staged = new StagedStates(redis, keys, SEALING, { history });
});

const FIRST = notedEventOf({ warnings: ["phone:invalid"] });

const change = (order: string, more: Partial<StateToStage> = {}): StateToStage => ({
  crmCode: CODE,
  eventKey: "",
  order,
  payload: "{}",
  fingerprint: `f${order}`,
  variant: "Person",
  status: "mapped",
  lane: "bulk",
  time: 1,
  event: "{}",
  noted: { event: FIRST, ignored: undefined },
  ...more,
});

const RUN: RunStep = {
  kind: "run",
  request: { method: "PUT", status: 503, durationMs: 12 },
  outcome: "unavailable",
  reason: "server_error",
  problems: undefined,
};

const read = () => history.read({ crmCode: CODE });
const hasOwnKey = async () => (await redis.exists(keys.history("crmCode", CODE))) === 1;
const held = async () =>
  Object.entries(await redis.hgetall(keys.staged(CODE))).filter(([name]) => /^hi\d*$/.test(name));

async function take(): Promise<TakenState> {
  const taken = await staged.take(CODE, "worker", 60_000);
  if (taken.kind !== "taken") throw new Error(taken.kind);
  return taken.state;
}

test("the first step lies in the staged hash, in pieces that keep it small, and has no key", async () => {
  await staged.stage(change("1"));
  expect(await hasOwnKey()).toBe(false);
  const pieces = await held();
  expect(pieces.length).toBeGreaterThan(1);
  for (const [, piece] of pieces) expect(piece.length).toBeLessThanOrEqual(63);
  expect(await redis.object("ENCODING", keys.staged(CODE))).toBe("listpack");
  const [step, ...more] = await read();
  expect(step).toMatchObject({ kind: "event", result: "staged", coalesced: false, event: FIRST });
  expect(more).toEqual([]);
  expect(Math.abs(Date.now() - (step?.at ?? 0))).toBeLessThan(60_000);
  // A worker that takes it changes nothing of that.
  await take();
  expect(await read()).toEqual([step]);
});

/** Brings a second step, or lets the staged hash go. */
const ENDS: Readonly<Record<string, () => Promise<unknown>>> = {
  "a newer event": () => staged.stage(change("2")),
  "an older event": () => staged.stage(change("0")),
  "an event that the ledger proves": async () => {
    const proven = { exists: true, uncertain: false, terminated: false, provedAt: 1 };
    const row = storeRow({ ...proven, fingerprint: "f2", variant: "Person", watermark: "1" });
    await redis.hset(keys.ledger, CODE, row);
    expect((await staged.stage(change("2"))).result).toBe("unchanged");
  },
  "a run": async () => staged.settle(await take(), { row: "before", finished: false }, RUN),
  "the last run": async () => staged.settle(await take(), { row: "before", finished: true }, RUN),
  "a run whose worker has lost it": async () => {
    const lost = { ...(await take()), token: "other" };
    expect(await staged.settle(lost, { row: "before", finished: true }, RUN)).toBe("lost");
  },
  "an act": async () => history.note({ crmCode: CODE }, { kind: "act", act: "dead.drop" }),
  "bulk cancel": async () => {
    const { crmCodes } = await new BulkChanges(redis, keys, 1, history).drop(["none", CODE]);
    expect(crmCodes).toEqual([CODE]);
  },
  "a held termination that is dropped": async () => {
    // Without a history at that moment, as while Redis is nearly full.
    history.leaveOut(true);
    await staged.settle(await take(), { row: "before", finished: false, held: true }, RUN);
    history.leaveOut(false);
    expect(await held()).not.toEqual([]);
    const terminations = new HeldTerminations(redis, keys, SEALING, 1, history);
    expect(await terminations.drop(CODE)).toBe(true);
  },
  "a Redis that went back": async () => {
    const lately = new SettledLately(redis, keys, 1, history);
    lately.note({ crmCode: CODE, order: "2", earlierFields: undefined });
    expect(await lately.restore()).toBe(1);
  },
};

test.each(Object.keys(ENDS))("%s moves it to its key, which expires", async (name) => {
  await staged.stage(change("1"));
  expect(await held()).not.toEqual([]);
  await ENDS[name]?.();
  const [first, ...later] = await read();
  expect(first).toMatchObject({ result: "staged", event: FIRST, times: 1 });
  expect(later.filter((step) => step.kind === "event" && step.result === "staged").length).toBe(
    name === "a newer event" ? 1 : 0,
  );
  expect(await held()).toEqual([]);
  expect(await redis.pttl(keys.history("crmCode", CODE))).toBeGreaterThan(29 * DAY_MS);
});

test("a record that has a history keeps its next step there", async () => {
  history.note({ crmCode: CODE }, { kind: "act", act: "dead.drop" });
  await staged.stage(change("1"));
  expect(await held()).toEqual([]);
  expect(await read()).toMatchObject([{ kind: "act" }, { result: "staged" }]);
});

test("a step that an older program has noted follows the step in the staged hash", async () => {
  await staged.stage(change("1"));
  const other = keysOf(uniquePrefix());
  new History(redis, other, 30).note({ crmCode: CODE }, { kind: "act", act: "dead.drop" });
  const text = (await redis.get(other.history("crmCode", CODE))) ?? "";
  await redis.set(keys.history("crmCode", CODE), text);
  expect(await read()).toMatchObject([{ result: "staged" }, { kind: "act" }]);
  await staged.settle(await take(), { row: "before", finished: true }, RUN);
  expect(await read()).toMatchObject([{ result: "staged" }, { kind: "act" }, { kind: "run" }]);
});

test("a step that is too long for the staged hash has a key", async () => {
  const long = notedEventOf({ subject: `contact/${"4711".repeat(60)}` });
  await staged.stage(change("1", { noted: { event: long, ignored: undefined } }));
  expect(await held()).toEqual([]);
  expect(await hasOwnKey()).toBe(true);
  expect(await read()).toMatchObject([{ event: long }]);
});

test("the step in the staged hash is told for as long as a history is kept, and goes with the next step", async () => {
  await staged.stage(change("1"));
  expect(await new History(redis, keys, 0).read({ crmCode: CODE })).toEqual([]);
  // Its time is within the first piece.
  const piece = (await redis.hget(keys.staged(CODE), "hi")) ?? "";
  const old = (days: number) =>
    piece.replace(/\nE[0-9a-f]{11}/, `\nE${(Date.now() - days * DAY_MS).toString(16)}`);
  await redis.hset(keys.staged(CODE), "hi", old(29));
  expect(await read()).toHaveLength(1);
  await redis.hset(keys.staged(CODE), "hi", old(31));
  expect(await read()).toEqual([]);
  await staged.settle(await take(), { row: "before", finished: true }, RUN);
  expect(await read()).toMatchObject([{ kind: "run" }]);
});

test("with HISTORY_DAYS=0 no step is kept", async () => {
  const none = new StagedStates(redis, keys, SEALING, { history: new History(redis, keys, 0) });
  await none.stage(change("1"));
  expect(await held()).toEqual([]);
  await staged.stage(change("2", { crmCode: "other" }));
  expect(await redis.hexists(keys.staged("other"), "hi")).toBe(1);
  const taken = await none.take("other", "worker", 60_000);
  if (taken.kind !== "taken") throw new Error(taken.kind);
  await none.settle(taken.state, { row: "before", finished: true }, RUN);
  expect(await history.read({ crmCode: "other" })).toEqual([]);
});

test("a history of another type fails nothing", async () => {
  await staged.stage(change("1"));
  await redis.sadd(keys.history("crmCode", CODE), "of another type");
  expect(await staged.stage(change("2"))).toMatchObject({ result: "staged" });
  expect(await staged.settle(await take(), { row: "before", finished: true }, RUN)).toBe("settled");
  expect(await redis.type(keys.history("crmCode", CODE))).toBe("set");
});
