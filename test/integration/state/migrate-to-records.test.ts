/** State version 3 from what the last release of version 2 left: test/fixtures/state/README.md. */
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it, onTestFinished } from "vitest";
import { readConfig } from "../../../src/config.ts";
import { migrateToRecords } from "../../../src/state/migrate-to-records.ts";
import { keysOf, type Keys } from "../../../src/state/keys.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import {
  StateVersionError,
  StateVersion,
  type MigrationReport,
} from "../../../src/state/state-version.ts";
import { openStores, type Stores } from "../../../src/status/stores.ts";
import { mostRetried } from "../../../src/state/line.ts";
import { readOne } from "../../../src/ops/redis-reading.ts";
import { Heartbeats } from "../../../src/state/heartbeats.ts";
import type { TakenState } from "../../../src/sync/record.ts";
import { loadOldState, OLD_STATE_KEY } from "../../support/old-state.ts";
import { textOfKeys } from "../../support/text-of-keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redisUrl = inject("redisUrl");
const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const PLAIN = "version-2.json.gz";
const SEALED = "version-2-sealed.json.gz";
const OTHER_KEY = Buffer.alloc(32, 8);

let prefix: string;
let keys: Keys;
beforeEach(() => {
  prefix = uniquePrefix();
  keys = keysOf(prefix);
});

const versionWith = (...stateKeys: Buffer[]) =>
  new StateVersion(redis, keys, new Heartbeats(redis, keys), {
    sealing: new Sealing(stateKeys),
    graceMs: 0,
  });

function storesWith(...stateKeys: Buffer[]): Stores {
  const client = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const STATE_KEY = stateKeys.map((key) => key.toString("base64")).join(" ");
  const config = readConfig({
    REDIS_URL: redisUrl,
    QUEUE_PREFIX: prefix,
    ...(STATE_KEY !== "" && { STATE_KEY }),
  });
  const stores = openStores(config, client);
  onTestFinished(() => stores.close());
  return stores;
}

async function take({ staged }: Stores, crmCode: string): Promise<TakenState> {
  const taken = await staged.take(crmCode, "worker", 60_000);
  if (taken.kind !== "taken") throw new Error(`${crmCode}: ${taken.kind}`);
  return taken.state;
}

const cityIn = (payload: string | undefined): unknown =>
  (JSON.parse(payload ?? "{}") as { city?: string }).city;

const typeOf = (event: string): unknown => (JSON.parse(event) as { type?: string }).type;

/** Without what ends within a minute by itself: the dump has locks of seconds. */
async function everything() {
  const all = await textOfKeys(redis, `${prefix}:`);
  for (const key of all.keys()) {
    const leftMs = await redis.pttl(key);
    if (leftMs !== -1 && leftMs < 60_000) all.delete(key);
  }
  return all;
}

describe.each([
  ["without STATE_KEY", PLAIN, []],
  ["with STATE_KEY", SEALED, [OLD_STATE_KEY]],
])("%s", (_which, file, stateKeys) => {
  let stores: Stores;
  const reports: MigrationReport[] = [];
  beforeEach(async () => {
    await loadOldState(redis, prefix, file, 60_000);
    reports.length = 0;
    await versionWith(...stateKeys).takeOver((report) => void reports.push(report));
    stores = storesWith(...stateKeys);
  });

  it("changes that wait are taken with what they said", async () => {
    const updated = { status: "mapped", lane: "live", late: false, approved: false } as const;
    const cities = { live: "Second", new: "Second", twice: "Third", letter: "Fourth" };
    for (const [crmCode, city] of Object.entries(cities)) {
      const state = await take(stores, crmCode);
      expect(state, crmCode).toMatchObject(updated);
      expect(cityIn(state.payload), crmCode).toBe(city);
      expect(typeOf(state.event)).toBe("crm.record.updated");
      expect(state.newestEvent).toBe(state.event);
      expect(state.orders).toMatchObject({ fields: state.orders.status, is: "mapped" });
      expect(state.row.exists).toBe(crmCode !== "new");
    }
    const bulk = await take(stores, "bulk");
    expect(bulk).toMatchObject({ lane: "bulk", status: "mapped" });
    expect(cityIn(bulk.payload)).toBe("Third");
    expect((await take(stores, "sequence")).orders.status).toMatch(/Z\t7\t\d{16}$/);
    const coalesced = await stores.records.read("twice");
    expect(coalesced.staged?.time).toBeGreaterThan(coalesced.staged?.firstTime ?? Infinity);
    expect((await stores.records.read("bulk")).staged?.eventKeys).toHaveLength(1);
  });

  it("deletions keep the fields that came before them, each with its event", async () => {
    const deleted = await take(stores, "live2");
    expect(deleted).toMatchObject({ status: "terminated", eventOrder: deleted.orders.fields });
    expect(cityIn(deleted.payload)).toBe("Second");
    expect([deleted.event, deleted.newestEvent].map(typeOf)).toEqual([
      "crm.record.updated",
      "crm.record.deleted",
    ]);
    expect(deleted.orders.status > deleted.orders.fields).toBe(true);

    const bare = await take(stores, "gone");
    expect(bare).toMatchObject({ status: "terminated", payload: undefined });
    expect(typeOf(bare.event)).toBe("crm.record.deleted");

    const unusable = await take(stores, "unusable");
    expect(unusable.eventOrder).toBe(unusable.orders.status);
    expect(typeOf(unusable.event)).toBe("crm.record.deleted");
    expect(cityIn(unusable.payload)).toBe("Second");
  });

  it("what was read of the service stays with its change, and so do counts, doubts and failures", async () => {
    const found = await take(stores, "found");
    expect(found).toMatchObject({ status: "terminated", doubt: "variant", counts: { heals: 1 } });
    const found2 = await take(stores, "found2");
    expect([found, found2].map(({ payload }) => cityIn(payload))).toEqual(["Read", "Read"]);
    const kept = await take(stores, "kept");
    expect(kept).toMatchObject({ kept: `{"city":"Kept"}`, counts: { reads: 1 } });

    const retry = await stores.records.read("retry");
    expect(retry.staged?.counts?.tries).toBeGreaterThan(0);
    expect(retry.staged?.failure?.reason).toMatch(/^500/);
    expect(retry.row?.uncertain).toBe(true);
    expect(await readOne(redis, mostRetried(keys))).toMatchObject({ records: 1 });
    const payload = await stores.sealing.open(retry.staged?.fields?.payload ?? "", "retry");
    expect(cityIn(payload)).toBe("Retried");
  });

  it("a request that was under way leaves its row uncertain, and its record held", async () => {
    for (const [crmCode, city] of [
      ["flight", "Sent"],
      ["flight2", "Newer"],
    ] as const) {
      expect(await stores.staged.take(crmCode, "worker", 60_000)).toMatchObject({ kind: "busy" });
      const { row, staged, warm } = await stores.records.read(crmCode);
      expect({ row, warm }).toMatchObject({ row: { exists: true, uncertain: true }, warm: true });
      expect(staged).toMatchObject({ phase: "waits", late: true });
      expect(staged?.taken).toBeUndefined();
      const until = (staged?.heldUntil ?? 0) + 1;
      expect(staged?.due).toBe(until - 1);
      expect(await redis.zscore(keys.line("live"), crmCode)).toBe(String(until - 1));
      const payload = await stores.sealing.open(staged?.fields?.payload ?? "", crmCode);
      expect(cityIn(payload)).toBe(city);
    }
  });

  it("terminations are held, or approved, as they were", async () => {
    expect(await stores.heldTerminations.find("held")).toMatchObject({
      why: "limit",
      lane: "live",
    });
    expect((await take(stores, "freed")).approved).toBe(true);
    expect(await stores.staged.take("held", "worker", 1)).toEqual({ kind: "nothing" });
    expect(await stores.heldTerminations.release("held")).toBe("live");
    const released = await take(stores, "held");
    expect(released).toMatchObject({ status: "terminated", approved: true });
    expect(typeOf(released.newestEvent)).toBe("crm.record.deleted");
    expect(await redis.zcard(keys.terminations)).toBe(1);
  });

  it("what is to be verified stays so, with and without a proof", async () => {
    const proven = await stores.records.read("verify");
    expect(proven.staged).toMatchObject({
      phase: "proven",
      late: true,
      proof: { exists: true, fingerprint: proven.row?.fingerprint },
    });
    const ended = await stores.records.read("proven");
    expect(ended.staged).toMatchObject({ phase: "proven", proof: { exists: false } });
    expect(ended.staged?.fields).toBeUndefined();
    const due = await stores.verifications.claim(Date.now() + 3_600_000, 60_000);
    expect(due?.crmCode).toBe("verify");
    expect(due && (await stores.verifications.withdraw(due))).toBe(true);
    const again = await take(stores, "verify");
    expect(again.status).toBe("mapped");
    expect(cityIn(again.payload)).toBe("Proven");

    expect((await stores.records.read("late")).staged).toMatchObject({ phase: "left", late: true });
    const hold = (await stores.records.read("hold")).staged;
    expect(hold).toMatchObject({ phase: "left", due: hold?.heldUntil });
    expect(hold?.late).toBeUndefined();
    for (const crmCode of ["late", "hold"]) {
      expect(await redis.pttl(keys.staged(crmCode)), crmCode).toBe(-1);
    }
  });

  it("dead letters stay, of records and of events", async () => {
    const letters = new Map<string, Awaited<ReturnType<typeof stores.deadLetters.find>>>();
    for await (const letter of stores.deadLetters.all()) letters.set(letter.id, letter);
    expect([...letters.keys()].toSorted()).toEqual(
      ["c:damaged", "c:dead", "c:late", "c:letter2", "e:somewhere/1"].toSorted(),
    );
    const dead = letters.get("c:dead");
    expect(dead).toMatchObject({ reason: "invalid", hasFields: true, times: 1 });
    expect(dead?.newest).toEqual({ order: dead?.order, status: "mapped" });
    expect(typeOf(dead?.event ?? "")).toBe("crm.record.updated");
    const both = letters.get("c:letter2");
    expect(both).toMatchObject({
      reason: "service_rejected",
      newest: { status: "active" },
      times: 2,
    });
    expect((both?.newest?.order ?? "") > (both?.order ?? "~")).toBe(true);
    expect(letters.get("e:somewhere/1")).toMatchObject({
      reason: "bad_event",
      event: `{"no":"event"}`,
    });
    const counts = { invalid: 1, given_up: 1, service_rejected: 1, bad_event: 1, defect: 1 };
    expect(await readOne(redis, stores.deadLetters.reasons())).toEqual(counts);
    expect(await redis.zcard(keys.deadAges)).toBe(5);
    // The record is sent again: its letter goes.
    const late = await take(stores, "letter");
    expect(await stores.deadLetters.find("c:letter")).toBeUndefined();
    expect(late.row.exists).toBe(true);
  });

  it("what somebody has damaged becomes a dead letter, or nothing is believed of it", async () => {
    expect(reports).toEqual([{ from: 2, to: 3, step: expect.any(String) as string, damaged: 2 }]);
    expect((await stores.records.read("damaged")).staged).toBeUndefined();
    const letter = await stores.deadLetters.find("c:damaged");
    expect(letter?.event).toMatch(/could not be opened .* send the record again/);
    expect(letter?.newest?.order).toMatch(/^2026-/);
    expect(await stores.ledger.row("broken")).toMatchObject({
      exists: undefined,
      uncertain: false,
    });
    // A change whose state was gone before counts as lost.
    expect(await stores.staged.take("lost", "worker", 1)).toEqual({ kind: "lost" });
  });

  it("the ledger, and what was left of forgotten and erased rows", async () => {
    const rows = await stores.ledger.rowsOf(["ended", "company", "assumed", "unknown", "live"]);
    const [ended, company, assumed, unknown, live] = rows;
    expect(ended).toMatchObject({ exists: true, terminated: true, variant: "Person" });
    expect(ended?.orders.is).toBe("terminated");
    expect((ended?.orders.status ?? "") > (ended?.orders.fields ?? "~")).toBe(true);
    const ofCompany = { terminated: true, variant: "Company", fingerprint: "ff.a", provedAt: 7 };
    expect(company).toMatchObject({ ...ofCompany, orders: { fields: "2026", is: "terminated" } });
    expect(assumed).toMatchObject({ exists: false, byList: true });
    expect(unknown?.exists).toBeUndefined();
    expect(live?.orders.status).toMatch(/^2026-/);
    const aside = await stores.ledger.row("set aside");
    expect(aside).toMatchObject({ exists: undefined, fingerprint: undefined, provedAt: 5 });
    expect(aside?.orders).toMatchObject({ fields: "2026", is: "terminated" });
    const erased = await stores.records.read("forgotten");
    expect(erased.rowText).toBe("");
    expect(erased.row).toMatchObject({ exists: undefined, uncertain: false });
    expect(erased.row?.orders.status).toMatch(/^2026-/);
  });

  it("each request that the service may still count stays counted", async () => {
    const state = await readOne(redis, stores.quotaState);
    expect(state.hasSent).toBe(true);
    // 33 of the daemon, and one of three slots.
    expect(state.limit - state.remaining).toBe(await redis.zcard(`${prefix}:quota:log:hour`));
    expect(state.limit - state.remaining).toBeGreaterThan(30);
    expect(await redis.zcard(`${prefix}:quota:log:burst`)).toBeGreaterThan(0);
    expect(state.pacing).toBe("steady");
  });

  it("the first step of a history goes where the others are, and nothing old is left", async () => {
    for (const crmCode of ["new", "live", "live2"]) {
      const steps = await stores.history.read({ crmCode });
      expect(steps[0], crmCode).toMatchObject({
        kind: "event",
        event: { subject: `contact/${crmCode}` },
      });
      expect(steps).toHaveLength(crmCode === "new" ? 1 : crmCode === "live" ? 3 : 4);
    }
    const names = (await redis.keys(`${prefix}:*`)).map((name) => name.slice(prefix.length + 1));
    const known =
      /^(?:staged:|ledger|line:|unsynced:|verify$|terminations|dead-letters|erased:|seen:|history:|quota:(?:log|pacing)|retried$|warm-up|state-version$|sources|sweeping|kept-fields|keyring|crm-events:|fetch:)/;
    expect(names.filter((name) => !known.test(name))).toEqual([]);
    for (const name of names.filter((one) => one.startsWith("staged:"))) {
      expect(Object.keys(await redis.hgetall(`${prefix}:${name}`)).toSorted(), name).toEqual([
        "state",
        "version",
      ]);
    }
  });
});

/** Its connection ends before the command of this number that writes. */
class DyingRedis extends Redis {
  left = Infinity;

  override sendCommand(...args: Parameters<Redis["sendCommand"]>): unknown {
    const isWrite = /^(?:evalsha|eval|del)$/.test(args[0].name);
    if (isWrite && (this.left -= 1) < 0) this.disconnect();
    return super.sendCommand(...args);
  }
}

/** All keys with their values, but for times and what is counted by them. */
async function outcome(): Promise<Record<string, unknown>> {
  const names = (await redis.keys(`${prefix}:*`)).toSorted();
  const entries = await Promise.all(
    names.map(async (name) => {
      const type = await redis.type(name);
      const value =
        type === "hash"
          ? await redis.hgetall(name)
          : type === "zset"
            ? (await redis.zrange(name, "0", "-1")).toSorted()
            : type === "string"
              ? await redis.get(name)
              : type;
      return [
        name.slice(prefix.length),
        JSON.parse(JSON.stringify(value).replaceAll(/\d{13,16}(?!\d)/g, "0")),
      ] as const;
    }),
  );
  return Object.fromEntries(entries);
}

it("cut anywhere, run again: the same as at once", async () => {
  const sealing = new Sealing([]);
  await loadOldState(redis, prefix, PLAIN);
  await migrateToRecords(redis, keys, sealing);
  const whole = await outcome();
  for (const cutAt of [0, 1, 3, 4, 8, 9, 10, 12, 15, 20, 25, 30, 35, 40]) {
    prefix = uniquePrefix();
    keys = keysOf(prefix);
    await loadOldState(redis, prefix, PLAIN);
    const dying = new DyingRedis(redisUrl, { maxRetriesPerRequest: null });
    await dying.ping();
    dying.left = cutAt;
    const isCut = await migrateToRecords(dying, keys, sealing).then(
      () => false,
      () => true,
    );
    dying.disconnect();
    expect(isCut, `cut at ${cutAt}`).toBe(true);
    await migrateToRecords(redis, keys, sealing);
    expect(await outcome(), `cut at ${cutAt}`).toEqual(whole);
  }
});

it("run twice at once, and once more: the same as once", async () => {
  const sealing = new Sealing([]);
  await loadOldState(redis, prefix, PLAIN);
  await migrateToRecords(redis, keys, sealing);
  const once = await outcome();
  prefix = uniquePrefix();
  keys = keysOf(prefix);
  await loadOldState(redis, prefix, PLAIN);
  await Promise.all([1, 2].map(() => migrateToRecords(redis, keys, sealing)));
  expect(await outcome()).toEqual(once);
  const before = await everything();
  await migrateToRecords(redis, keys, sealing);
  expect(await everything()).toEqual(before);
});

it.each([
  ["no key", [], /sealed with the key \S{8}, and STATE_KEY is not set: set STATE_KEY/],
  ["another key", [OTHER_KEY], /sealed with the key \S{8}, and STATE_KEY holds only the key \S{8}/],
])("%s: the start is refused before anything is changed", async (_what, stateKeys, message) => {
  await loadOldState(redis, prefix, SEALED);
  const before = await everything();
  const error = await versionWith(...stateKeys)
    .takeOver()
    .catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(StateVersionError);
  expect(String(error)).toMatch(message);
  expect(String(error)).toContain(new Sealing([OLD_STATE_KEY]).keyId);
  expect(await everything()).toEqual(before);
  await versionWith(...stateKeys, OLD_STATE_KEY).takeOver();
  const stores = storesWith(...stateKeys, OLD_STATE_KEY);
  expect(cityIn((await take(stores, "live")).payload)).toBe("Second");
});

it("a user of Redis without SCAN is told so before anything is changed", async () => {
  await loadOldState(redis, prefix, PLAIN);
  const user = prefix.slice(1, -1);
  await redis.acl("SETUSER", user, "on", ">secret", `~${prefix}*`, "&*", "+@all", "-scan");
  onTestFinished(async () => void (await redis.acl("DELUSER", user)));
  const before = await everything();
  const limited = new Redis(redisUrl, { username: user, password: "secret" });
  const version = new StateVersion(limited, keys, new Heartbeats(limited, keys), { graceMs: 0 });
  const error = await version.takeOver().catch((thrown: unknown) => thrown);
  limited.disconnect();
  expect(error).toBeInstanceOf(StateVersionError);
  expect(String(error)).toMatch(/may not send SCAN: give it \+scan/);
  expect(await everything()).toEqual(before);
});
