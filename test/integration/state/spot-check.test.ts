/** Writes that were answered and are read once more: which ones, and what Redis keeps for that. */
import { Redis } from "ioredis";
import { afterAll, expect, inject, test } from "vitest";
import { ServiceDenial } from "../../../src/state/denial.ts";
import { Outage } from "../../../src/state/outage.ts";
import { Sealing } from "../../../src/state/sealing.ts";
import { Verifications } from "../../../src/state/verifications.ts";
import { rowAt, stateOf, storesOf, takeFrom } from "../../support/stores-of.ts";
import { textOfKeys } from "../../support/text-of-keys.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const HOUR_MS = 3_600_000;

test("one write an hour is chosen, and the first one after a start, a denial and an outage", async () => {
  const { keys, records, staged } = storesOf(redis);
  await staged.stage(stateOf("1", "1"));
  const state = await takeFrom({ staged }, "1");
  const one = new Verifications(records, HOUR_MS);
  const chosen = () => one.isToBeChecked(state);
  expect([await chosen(), await chosen()]).toEqual([true, false]);
  expect(await redis.pttl(keys.spotCheck)).toBeGreaterThan(HOUR_MS - 60_000);
  await redis.pexpire(keys.spotCheck, 1);
  await expect.poll(chosen).toBe(true);

  const other = new Verifications(records, HOUR_MS);
  expect(await other.isToBeChecked(state)).toBe(true);
  expect([await other.isToBeChecked(state), await chosen()]).toEqual([false, false]);

  const denial = new ServiceDenial(redis, keys, 60_000);
  await denial.begin("token", "");
  expect(await chosen()).toBe(false);
  await denial.end();
  expect([await chosen(), await chosen()]).toEqual([true, false]);

  const outage = new Outage(redis, keys);
  for (let failure = 0; failure < 5; failure += 1) await outage.failed("timeout", true);
  expect(await chosen()).toBe(false);
  await outage.answered(true);
  expect([await chosen(), await chosen()]).toEqual([true, false]);
});

test("no values are kept for it; what differs makes the row uncertain", async () => {
  const { keys, ledger, staged, verifications } = storesOf(redis, {
    verifyMs: 1,
    sealing: new Sealing([]),
  });
  await staged.stage(stateOf("1", "1", { payload: "Zacharias", event: "Uhlenhorst" }));
  const row = rowAt("1", "f-1");
  await staged.settle(await takeFrom({ staged }, "1"), { row, finished: true, spotCheck: true });
  const prefix = keys.ledger.replace(/:ledger$/, "");
  for (const [key, text] of await textOfKeys(redis, prefix))
    expect(text, key).not.toMatch(/Zacharias|Uhlenhorst/);

  await expect.poll(() => verifications.anyDue(Date.now())).toBe(true);
  const due = await verifications.claim(Date.now(), 60_000);
  if (due === undefined) throw new Error("nothing to verify");
  expect(due).toMatchObject({ isSpotCheck: true, proof: { exists: true, fingerprint: "f-1" } });
  expect(await verifications.withdraw(due)).toBe(true);
  expect(await ledger.row("1")).toMatchObject({ uncertain: true, orders: row.orders });
  expect(await redis.exists(keys.staged("1"))).toBe(0);
});
