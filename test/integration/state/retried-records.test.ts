import { Redis } from "ioredis";
import { afterAll, beforeEach, expect, inject, it } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { hashOf } from "../../../src/base/log-names.ts";
import {
  editStaged,
  rowAt,
  stateOf,
  storesOf,
  takeFrom,
  type TestStores,
} from "../../support/stores-of.ts";
import { waitFor } from "../../support/wait-for.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let stores: TestStores;
beforeEach(() => {
  stores = storesOf(redis);
});

const most = async () => (await readOne(redis, stores.line.counts())).retried;
const nameOf = (crmCode: string) => hashOf(crmCode);

const SINCE = Date.now() - 60_000;

/** Fails so often, first a minute ago; its change waits. */
async function fails(crmCode: string, times: number, since = SINCE): Promise<void> {
  await stores.staged.stage(stateOf(crmCode, "1"));
  const failed = { row: "before", finished: false, counts: ["failed"] } as const;
  for (let n = 0; n < times; n += 1) {
    const state = await takeFrom(stores, crmCode);
    await stores.staged.settle(state, { ...failed, failure: "500 (server_error)" });
  }
  await editStaged(stores, crmCode, (staged) => ({
    ...staged,
    tries: staged.tries && { ...staged.tries, since },
  }));
}

it("tells the record that has failed for longest, and how many there are", async () => {
  await fails("a", 3);
  await fails("b", 14, SINCE - 1000);
  await fails("c", 1, Date.now());
  expect(await most()).toEqual({
    records: 2,
    tries: 14,
    since: SINCE - 1000,
    reason: "500 (server_error)",
    record: nameOf("b"),
  });
});

it("a record that has just begun to fail does not count yet", async () => {
  await fails("a", 5, Date.now());
  expect(await most()).toBeUndefined();
});

it("is over when the change has ended, or a newer one has come", async () => {
  for (const crmCode of ["sent", "newer", "fails"]) await fails(crmCode, 2);
  expect(await most()).toMatchObject({ records: 3 });
  const state = await takeFrom(stores, "sent");
  await stores.staged.settle(state, { row: rowAt("1"), finished: true });
  await stores.staged.stage(stateOf("newer", "2"));
  expect(await most()).toMatchObject({ records: 1, record: nameOf("fails") });
});

it("keeps the first failure while a try that tells nothing comes in between", async () => {
  await fails("a", 2);
  await stores.staged.settle(await takeFrom(stores, "a"), { row: "before", finished: false });
  expect(await most()).toMatchObject({ tries: 2, since: SINCE });
});

it("600 live changes that came after it do not overtake one whose retry is due", async () => {
  const { line, staged } = stores;
  await staged.stage(stateOf("first", "1"));
  expect(await line.next("live", 60_000)).toBe("first");
  const state = await takeFrom(stores, "first");
  const later = Array.from({ length: 600 }, (_, n) => stateOf(`later ${n}`, "1"));
  await Promise.all(later.map((one) => staged.stage(one)));
  const retryAt = Date.now() + 200;
  const failed = { row: "before", finished: false, counts: ["failed"], failure: "503" } as const;
  await staged.settle(state, { ...failed, retryAt });
  expect(await line.next("live", 60_000)).toMatch(/^later/);
  await waitFor(() => Date.now() > retryAt, { what: "its retry is due" });
  expect(await line.next("live", 60_000)).toBe("first");
});
