/** `crmsync held`, as an operator types it. */
import { Redis } from "ioredis";
import { expect, inject, onTestFinished, test } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import { hold } from "../../support/hold.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { DELETED, editStaged, stateOf } from "../../support/stores-of.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const STATE_KEY = Buffer.alloc(32, 5).toString("base64");

async function crmsync(prefix: string, ...args: string[]) {
  const env = { REDIS_URL: inject("redisUrl"), QUEUE_PREFIX: prefix, STATE_KEY };
  await using command = localCrmsync(["held", ...args], { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

function storesOf(prefix: string): Stores {
  const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
  const stores = openStores(readConfig({ QUEUE_PREFIX: prefix, STATE_KEY }), redis);
  onTestFinished(() => stores.close());
  return stores;
}

test("held changes are listed, and decided by crmCode, record, source or all", async () => {
  const prefix = uniquePrefix();
  const stores = storesOf(prefix);
  const { keys, redis } = stores;
  await hold(stores, "crm-7", "contact/7", "/crm/a");
  await hold(stores, "crm-8", "contact/8", "/crm/a");
  await hold(stores, "crm-9", "contact/9", "/crm/b");
  await hold(stores, "crm-10", "contact/9", "/crm/c");

  const listed = await crmsync(prefix, "list", "--source", "/crm/a");
  expect(listed.out).toMatch(
    /^crm-7 {2}crm\.record\.deleted contact\/7 {2}of 2026-11-20T09:30:11Z, held since \S+Z: more relations were to be terminated than TERMINATE_LIMIT allows {2}\/crm\/a\ncrm-8 .*\n2 held changes$/,
  );
  const { out: line } = await crmsync(prefix, "list", "--json", "--source", "/crm/b");
  expect(JSON.parse(line)).toMatchObject({
    crmCode: "crm-9",
    type: "crm.record.deleted",
    subject: "contact/9",
    source: "/crm/b",
    lane: "bulk",
    time: "2026-11-20T09:30:11.000Z",
  });

  expect(await crmsync(prefix, "drop", "contact/5", "--apply")).toMatchObject({
    code: 1,
    err: "crmsync: there is no held change contact/5",
  });
  const ambiguous = await crmsync(prefix, "drop", "contact/9", "--apply");
  expect(ambiguous.err).toMatch(/contact\/9 names 2 held changes; give the crmCode of one:/);

  const dry = await crmsync(prefix, "release", "contact/7", "crm-7");
  expect(dry.out).toMatch(/^crm-7 .*\nwould release 1 held change; give --apply to do it$/);
  expect(await redis.zcard(keys.heldTerminations)).toBe(4);

  const released = await crmsync(prefix, "release", "contact/7", "crm-7", "--apply");
  expect(released).toMatchObject({ code: 0, out: "1 released, 0 dropped" });
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["crm-7"]);
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["crm-7"]);

  const dropped = await crmsync(prefix, "drop", "--all", "--apply", "--json");
  expect(JSON.parse(dropped.out)).toEqual({
    chosen: 3,
    applied: true,
    released: 0,
    dropped: 3,
    left: 0,
  });
  expect(await redis.exists(keys.staged("crm-8"), keys.heldTerminations)).toBe(0);
  expect((await crmsync(prefix, "list")).out).toBe("0 held changes");
});

test("the list says that another record of the CRM has written the relation", async () => {
  const prefix = uniquePrefix();
  const { staged } = storesOf(prefix);
  const event = JSON.stringify({
    type: "crm.record.deleted",
    subject: "contact/2",
    source: "/crm/a",
  });
  await staged.stage(stateOf("c1", "1", { writer: "first", event }));
  const deletion = stateOf("c1", "2", { ...DELETED, writer: "second", event });
  expect(await staged.stage(deletion)).toMatchObject({ result: "held" });
  const { out } = await crmsync(prefix, "list");
  expect(out).toMatch(/^c1 .*Z: another record of the CRM wrote this relation {2}\/crm\/a$/m);
  const asJson = await crmsync(prefix, "list", "--json");
  expect(JSON.parse(asJson.out)).toMatchObject({ crmCode: "c1", why: "other_record" });
});

test("a held change that somebody has damaged hides no other one, and can be dropped", async () => {
  const prefix = uniquePrefix();
  const stores = storesOf(prefix);
  await hold(stores, "crm-7", "contact/7", "/crm/a");
  await hold(stores, "crm-8", "contact/8", "/crm/a");
  // Sealed for another record.
  const [other] = await stores.staged.waiting(["crm-8"]);
  await editStaged(stores, "crm-7", (staged) => ({
    ...staged,
    status: other?.status ?? staged.status,
  }));
  const { out } = await crmsync(prefix, "list");
  expect(out).toMatch(
    /^crm-7 {2}an event that cannot be opened: somebody has changed it in Redis/m,
  );
  expect(out).toMatch(/^crm-8 {2}crm\.record\.deleted contact\/8/m);
  expect((await crmsync(prefix, "drop", "crm-7", "--apply")).out).toBe("0 released, 1 dropped");
  expect((await crmsync(prefix, "release", "--all", "--apply")).out).toBe("1 released, 0 dropped");
});
