/** `crmsync forget`, as an operator types it, on a Redis where two persons have every kind of trace. */
import { FlowProducer } from "bullmq";
import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { eventKey } from "../../../src/core/event/event-order.ts";
import { openStores, type Stores } from "../../../src/operate/status/stores.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { personEvent } from "../../support/person-event.ts";
import { localCrmsync } from "../../support/local-command.ts";
import { spawnCrmsync } from "../../support/process.ts";
import { editStaged, listed, rowAt, takeFrom } from "../../support/stores-of.ts";
import { textOfKeys } from "../../support/text-of-keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

let env: Record<string, string>;
let stores: Stores;

beforeEach(async () => {
  env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    STATE_KEY: Buffer.alloc(32, 5).toString("base64"),
    SERVICE_TIMEOUT_MS: "20000",
  };
  stores = openStores(readConfig(env), redis.duplicate());
  await stores.stateVersion.require();
  return () => stores.close();
});

async function forget(...args: string[]) {
  await using command = localCrmsync(["forget", ...args], { env });
  const { code } = await command.ended;
  return { code, out: command.stdout.join("\n"), err: command.stderr.join("\n") };
}

const PROVEN = rowAt("1", "f");

const stateOf = (crmCode: string, order: string): StateToStage => ({
  crmCode,
  eventKey: eventKey({ source: "test", id: `${crmCode} ${order}` }),
  order,
  payload: "{}",
  fingerprint: `f${order}`,
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1,
  event: JSON.stringify(personEvent(crmCode)),
  noted: {
    event: {
      source: "test",
      id: `${crmCode} ${order}`,
      type: "updated",
      subject: `contact/${crmCode}`,
      time: 1,
      warnings: [],
      redriven: false,
    },
    ignored: undefined,
  },
});

/** Every kind of trace of one person; the record in the CRM is `contact/<code>`. */
async function fill(crmCode: string): Promise<void> {
  const { deadLetters, inbox, outage, staged, thinEvents } = stores;
  const subject = `contact/${crmCode}`;
  const problem = { reason: "unmappable", problems: [], at: 1 } as const;
  await listed(stores, []);
  await staged.stage(stateOf(crmCode, "5"));
  const failed = { row: "unknown", finished: false, openMs: 0, counts: ["failed"] } as const;
  await staged.settle(await takeFrom(stores, crmCode), { ...failed, failure: "timeout" });
  await outage.failed("connection_refused", true);
  await outage.rejected(crmCode, false);
  await inbox.redrive(`c:${crmCode}`);
  await thinEvents.noteOwners({ crm: "hubspot", role: "part", subject: "company/1" }, [subject]);
  await inbox.push([
    personEvent(crmCode),
    personEvent(crmCode, {}, { subject: `lead/${crmCode}` }),
  ]);
  await stores.thinEvents.put(
    { crm: "hubspot", subject },
    "2",
    JSON.stringify(personEvent("x", {}, { subject })),
    "live",
  );
  await deadLetters.store(
    createDeadLetter(
      { crmCode },
      { ...problem, order: "9", event: JSON.stringify(personEvent(crmCode)) },
    ),
  );
  await deadLetters.store(
    createDeadLetter(
      { eventKey: `of-${crmCode}` },
      { ...problem, event: JSON.stringify({ subject }) },
    ),
  );
}

const all = (prefix: string) => textOfKeys(redis, prefix);

/** Which keys name a person. */
async function keysWith(crmCode: string): Promise<string[]> {
  const names = new RegExp(`(?<![\\w-])${crmCode}(?![\\w-])`);
  const found = [...(await all(env["QUEUE_PREFIX"] ?? ""))].filter(([, text]) => names.test(text));
  return found.map(([key]) => key).toSorted();
}

/** The same without the prefix. */
const placesOf = async (crmCode: string) =>
  (await keysWith(crmCode)).map((key) => key.slice(env["QUEUE_PREFIX"]?.length));

const KINDS = {
  ledger: 1,
  staged: 1,
  inbox: 3,
  fetch: 1,
  dead: 2,
  tries: 1,
  history: 2,
};

describe("crmsync forget", () => {
  it("finds everything by a crmCode, and changes nothing without --apply", async () => {
    await fill("ada-1");
    const before = await all(env["QUEUE_PREFIX"] ?? "");
    const found = await forget("ada-1", "--json");
    expect(JSON.parse(found.out)).toEqual({
      crmCodes: ["ada-1"],
      subjects: ["contact/ada-1", "lead/ada-1"],
      found: KINDS,
      related: [],
      applied: false,
    });
    expect(await all(env["QUEUE_PREFIX"] ?? "")).toEqual(before);
  });

  it("erases one person by the record in the CRM, and nothing of the other one", async () => {
    await fill("ada-1");
    await fill("bob-2");
    expect((await placesOf("ada-1")).length).toBeGreaterThan(12);
    const ofBob = await placesOf("bob-2");
    const { code, out } = await forget("contact/ada-1", "--apply");
    expect(out).toMatch(/^erased 1 row of the ledger, 1 staged state, 3 events/m);
    expect(out).toMatch(
      /^Redis' append-only file holds it until it is rewritten: crmsync redis call bgrewriteaof/m,
    );
    expect(code).toBe(0);
    expect(await placesOf("ada-1")).toEqual([]);
    expect(await placesOf("bob-2")).toEqual(ofBob);
  });

  it("lets no older event follow, and a newer one ask the service", async () => {
    await fill("ada-1");
    await forget("ada-1", "--apply");
    const { staged } = stores;
    expect((await staged.stage(stateOf("ada-1", "4"))).result).toBe("superseded");
    expect(await placesOf("ada-1")).toEqual([]);
    // A deletion must still find the relation, although the ledger is warm and has no row of it.
    const deletion = { ...stateOf("ada-1", "6"), payload: undefined, fingerprint: undefined };
    expect((await staged.stage({ ...deletion, status: "terminated" })).result).toBe("staged");
    expect(await stores.ledger.row("ada-1")).toMatchObject({ exists: undefined });
    expect((await staged.stage(stateOf("ada-1", "55"))).result).toBe("staged");
    expect(await redis.exists(stores.keys.erased("ada-1"))).toBe(0);
  });

  it("believes what a later list says of the relation, and still lets no older event follow", async () => {
    await fill("ada-1");
    await forget("ada-1", "--apply");
    const { ledger, staged } = stores;
    await listed({ ledger }, [["ada-1", rowAt("", "f7")]]);
    expect((await staged.stage(stateOf("ada-1", "4"))).result).toBe("superseded");
    // A request of it had no answer, and may still take effect: that outlasts the erasure.
    expect((await staged.stage(stateOf("ada-1", "7"))).result).toBe("staged");
    expect((await takeFrom(stores, "ada-1")).row).toMatchObject({ exists: true, uncertain: true });
  });

  it("keeps no dead letter of an older event, and one of a newer event", async () => {
    await fill("ada-1");
    await forget("ada-1", "--apply");
    const event = JSON.stringify(personEvent("ada-1", { birthDate: "yesterday" }));
    const letter = (order: string) =>
      createDeadLetter(
        { crmCode: "ada-1" },
        { reason: "invalid", problems: [], event, at: 1, order, hasFields: true },
      );
    expect(await stores.deadLetters.store(letter("4"))).toBe("superseded");
    expect(await placesOf("ada-1")).toEqual([]);
    expect(await stores.deadLetters.store(letter("6"))).toBe("stored");
  });

  it("has a line of the audit trail, also for a record without a crmCode", async () => {
    env = { ...env, AUDIT_LOG: "stdout" };
    await fill("ada-1");
    await forget("ada-1", "--apply");
    await forget("lead/unmapped", "--apply");
    const lines: unknown[] = [];
    for (let act; (act = await stores.auditActs.next()) !== undefined;) {
      lines.push(act.line);
      await stores.auditActs.written(act);
    }
    expect(lines).toMatchObject([
      { act: "forget", crmCode: "ada-1" },
      { act: "forget", records: ["lead/unmapped"] },
    ]);
  });

  it("waits for a request that is under way, and erases what waits behind it", async () => {
    const { staged } = stores;
    await staged.stage(stateOf("ada-1", "1"));
    const taken = await takeFrom(stores, "ada-1");
    await staged.stage(stateOf("ada-1", "2"));
    await using command = localCrmsync(["forget", "ada-1", "--apply"], { env });
    await command.line(/waiting for a job or a request that is under way/);
    expect(await staged.waiting(["ada-1"])).toMatchObject([{ status: { order: "2" } }]);
    expect(await staged.settle(taken, { row: "before", finished: true })).toBe("more");
    expect((await command.ended).code).toBe(0);
    expect(await placesOf("ada-1")).toEqual([]);
    expect((await staged.take("ada-1", "worker", 60_000)).kind).toBe("nothing");
  });

  it("finds the record again by its name after it was stopped while it waited", async () => {
    const { ledger, staged } = stores;
    // The mapping would make ada of contact/ada: that is another person here.
    await listed({ ledger }, [["ada", PROVEN]]);
    const { noted, ...state } = stateOf("ada-1", "1");
    const subject = "contact/ada";
    await staged.stage({
      ...state,
      noted: noted && { ...noted, event: { ...noted.event, subject } },
    });
    const taken = await takeFrom(stores, "ada-1");
    {
      await using command = spawnCrmsync(["forget", subject, "--apply"], { env });
      await command.line(/waiting for a job or a request that is under way/);
    }
    await staged.settle(taken, { row: PROVEN, finished: true });
    const { out } = await forget(subject, "--apply");
    expect(out).toMatch(/^crmCode ada-1, record contact\/ada$/m);
    expect(out).toMatch(/^erased 1 row of the ledger, 2 histories$/m);
    expect(await ledger.row("ada")).toBeDefined();
    expect(await ledger.row("ada-1")).toBeUndefined();
  });

  it("is not kept from it by what somebody has damaged, and erases that too", async () => {
    const { deadLetters, keys } = stores;
    await fill("ada-1");
    await fill("bob-2");
    // Whole as such, and sealed for another record.
    const [ofAda] = await stores.staged.waiting(["ada-1"]);
    await editStaged(stores, "bob-2", (staged) => ({ ...staged, fields: ofAda?.fields }));
    const letter = JSON.parse((await redis.hget(keys.deadLetters, "c:bob-2")) ?? "") as object;
    const other = JSON.parse((await redis.hget(keys.deadLetters, "c:ada-1")) ?? "") as object;
    const damaged = { ...letter, event: (other as { event: string }).event };
    await redis.hset(keys.deadLetters, "c:bob-2", JSON.stringify(damaged));
    expect((await forget("ada-1", "--apply")).code).toBe(0);
    expect(await placesOf("ada-1")).toEqual([]);
    expect((await forget("bob-2", "--apply")).code).toBe(0);
    expect(await placesOf("bob-2")).toEqual([]);
    expect(await deadLetters.count()).toBe(0);
  });

  it("finds by its crmCode what is no valid event, but has the person's record", async () => {
    const { deadLetters, inbox } = stores;
    const record = { type: "Person", crmCode: "ada-1", firstName: "Ada", lastName: "Muster" };
    const event = JSON.stringify({ specversion: "1.0", data: { record } });
    const letter = { reason: "bad_event", problems: [], event, at: 1 } as const;
    await deadLetters.store(createDeadLetter({ eventKey: "bad" }, letter));
    await inbox.queue.add("event", { id: "1", data: { record } });
    const { code, out } = await forget("ada-1", "--apply");
    expect(out).toMatch(/^erased 1 event in the inbox, 1 dead letter$/m);
    expect(code).toBe(0);
    expect(await placesOf("ada-1")).toEqual([]);
  });

  it("finds an event also while somebody has paused the inbox, and one that a flow holds back", async () => {
    const { inbox } = stores;
    const prefix = env["QUEUE_PREFIX"] ?? "";
    const flows = new FlowProducer({ connection: redis, prefix });
    const children = [{ name: "export", queueName: "other", data: {} }];
    const data = personEvent("ada-1");
    await flows.add({ name: "event", queueName: inbox.queue.name, data, children });
    await inbox.queue.pause();
    await inbox.push([personEvent("ada-1"), personEvent("bob-2")]);
    // BullMQ 5 and older keep the jobs of a paused queue there.
    await redis.rename(inbox.queue.toKey("wait"), inbox.queue.toKey("paused"));
    const { code, out } = await forget("ada-1", "--apply");
    expect(out).toMatch(/^erased 2 events in the inbox$/m);
    expect(code).toBe(0);
    expect(await placesOf("ada-1")).toEqual([]);
    expect(await redis.llen(inbox.queue.toKey("paused"))).toBe(1);
    await flows.close();
  });

  it("leaves what is of another crmCode, and names it", async () => {
    const merge = { type: "crm.record.merged", subject: "contact/bob" };
    const event = personEvent("bob-2", {}, merge);
    Object.assign(event["data"] as object, { merged: ["contact/ada"] });
    const moved = personEvent("eve-3", {}, { subject: "contact/ada-1" });
    await stores.inbox.push([event, personEvent("ada-1"), moved]);
    const { out } = await forget("ada-1", "contact/ada", "--apply");
    expect(out).toMatch(
      /^not of it: the event in the inbox 1 of the crmCode bob-2 names this record/m,
    );
    expect(out).toMatch(
      /^not of it: the event in the inbox 3 of the crmCode eve-3 names this record/m,
    );
    expect(out).toMatch(/^erased 1 event in the inbox$/m);
    expect(await stores.inbox.queue.count()).toBe(2);
  });

  it("does not take the mapping's crmCode for a record whose own one an event tells", async () => {
    const { inbox, ledger } = stores;
    // The mapping would make 7 of contact/7 alone; that is another person here.
    await listed({ ledger }, [["7", PROVEN]]);
    await inbox.push([personEvent("ada-1", {}, { subject: "contact/7" })]);
    expect((await forget("contact/7", "--apply")).out).toMatch(/^erased 1 event in the inbox$/m);
    expect(await ledger.row("7")).toBeDefined();
    // Without that event, it does.
    expect((await forget("contact/7")).out).toMatch(/^would erase 1 row of the ledger;/m);
  });
});

it("erases a held termination, found by the record's name in the CRM", async () => {
  const { keys, staged, terminationGuard } = stores;
  await staged.stage({ ...stateOf("held", "1"), status: "terminated" });
  const taken = await takeFrom(stores, "held");
  await terminationGuard.admit({ crmCode: "held", approved: false }, "now");
  await staged.settle(taken, { row: "before", finished: false, held: { why: "limit" } });
  expect(await redis.zcard(keys.heldTerminations)).toBe(1);
  expect((await forget("contact/held", "--apply")).code).toBe(0);
  expect(await keysWith("held")).toEqual([]);
});

it("erases a state that is to be verified, and to which crmCode its record led", async () => {
  const { keys, staged } = stores;
  const { noted, ...state } = stateOf("ada-1", "1");
  const subject = "contact/7";
  const event = noted && { ...noted.event, subject };
  await staged.stage({ ...state, noted: event && { event, ignored: undefined } });
  const proven = { row: PROVEN, finished: true, openMs: 0 } as const;
  await staged.settle(await takeFrom(stores, "ada-1"), proven);
  expect(await redis.zcard(keys.later)).toBe(1);
  expect(await staged.codeOf(subject)).toBe("ada-1");
  // Its history has expired.
  await redis.del(keys.history("crmCode", "ada-1"), keys.historyCodes(subject));
  await redis.hset(keys.subjects, "of another record", "bob-2");
  const { out } = await forget(subject, "--apply");
  expect(out).toMatch(/^erased 1 row of the ledger, 1 state to verify, 1 history$/m);
  expect(await placesOf("ada-1")).toEqual([]);
  expect(await staged.codeOf(subject)).toBeUndefined();
  expect(await redis.hvals(keys.subjects)).toEqual(["bob-2"]);
});
