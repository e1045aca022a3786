/**
 * Dead letters of records whose fields and status come from two events: the newer one is without fields.
 * Order, status and fields are those of the real reducers; the service is the model of the property tests.
 */
import { Redis } from "ioredis";
import { afterAll, expect, inject, onTestFinished, test } from "vitest";
import { deadLetterId } from "../../../src/core/sync/dead-letter.ts";
import type { Change as Staged } from "../../../src/core/sync/record.ts";
import { ModelCrm } from "../property/model-crm.ts";
import type { ScriptedReply } from "../property/model-service.ts";
import { bodyOf, UNUSABLE, type Change } from "../property/records.ts";
import { Simulation } from "../property/simulation.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

/** More than a run has. */
const STEPS = 8;

/** The record r0. Its service knows `version 0` of it, unless it does not exist. */
async function startRecord({ exists = true, limit = Number.POSITIVE_INFINITY } = {}) {
  const simulation = new Simulation(redis, limit);
  onTestFinished(() => simulation.deleteKeys());
  const crm = new ModelCrm();
  if (exists) simulation.service.addExisting("r0", bodyOf("r0", 0));
  // An empty list would say nothing of the record.
  simulation.service.addExisting("r1", bodyOf("r1", 0));
  await simulation.warm();
  const step = (reply: ScriptedReply = "ok") => simulation.step(1, { reply, giveUp: false });
  const steps = async (reply: ScriptedReply = "ok") => {
    for (let n = 0; n < STEPS; n += 1) await step(reply);
  };
  return {
    simulation,
    step,
    steps,
    accept: (kind: Change["kind"], time: number, content = 0) =>
      simulation.accept(crm.add({ record: "r0", kind, content, time, sequence: 0 })),
    /** One run, with at most one request. */
    async run(reply: ScriptedReply = "ok") {
      await simulation.start(1, "r0");
      await steps(reply);
    },
    /** The same, and the change is given up if it had no usable reply. */
    async giveUp(reply: ScriptedReply) {
      await simulation.start(1, "r0");
      for (let n = 0; n < STEPS; n += 1) await simulation.step(1, { reply, giveUp: true });
    },
    async redrive() {
      await simulation.redrive(1, "r0");
      await steps();
    },
    finish: () => simulation.finish(),
    body: () => simulation.service.relations.get("r0")?.body,
    /** Of its dead letter: which event it has, and what else it says. */
    async letter() {
      const letter = await simulation.deadLetters.find(deadLetterId("r0"));
      if (letter === undefined) return undefined;
      const { id } = JSON.parse(letter.event) as { id: string };
      const { hasFields, newest, order, reason } = letter;
      const isLater = newest !== undefined && newest.order !== order;
      return { event: Number(id), reason, hasFields, later: isLater ? newest.status : undefined };
    },
    /** The status that the waiting state wants. */
    async waiting() {
      const state = (await redis.hget(simulation.keys.staged("r0"), "state")) ?? "{}";
      return (JSON.parse(state) as Partial<Staged>).status?.is;
    },
    async reasons() {
      const counts = await redis.hgetall(simulation.keys.deadReasons);
      return Object.fromEntries(
        Object.entries(counts).flatMap(([reason, count]) =>
          count === "0" ? [] : [[reason, Number(count)]],
        ),
      );
    },
  };
}

/** Only the list has shown that the relation does not exist: the service is asked first. */
async function runAbsent(record: Awaited<ReturnType<typeof startRecord>>): Promise<void> {
  await record.run();
  await record.run();
}

/** The service rejects an event without fields: the record is read first. */
async function rejectBare(record: Awaited<ReturnType<typeof startRecord>>): Promise<void> {
  await record.run();
  await record.run("rejected");
}

/** The mapping is corrected: a redrive brings the fields of the dead letter to the service. */
async function correctAndRedrive(record: Awaited<ReturnType<typeof startRecord>>): Promise<void> {
  record.simulation.correct();
  await record.redrive();
  await record.finish();
  expect(await record.letter()).toBeUndefined();
  expect(record.body()).toMatchObject({ firstName: `version ${UNUSABLE}` });
}

test("a change of two events is redriven as one state", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, 1);
  await record.accept("delete", 2);
  await record.run("rejected");
  expect(await record.letter()).toEqual({
    event: 0,
    reason: "service_rejected",
    hasFields: true,
    later: "terminated",
  });
  await record.redrive();
  expect(await record.letter()).toBeUndefined();
  expect(await record.waiting()).toBe("terminated");
  await record.run();
  expect(record.body()).toMatchObject({ firstName: "version 1", relationStatus: "terminated" });
});

test("a dead letter of fields outlives a restoration, and says when it is rejected again", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("bare_restore", 2);
  await record.finish();
  const letter = { event: 0, reason: "invalid", hasFields: true, later: undefined };
  expect(await record.letter()).toEqual(letter);
  await record.redrive();
  expect(await record.letter()).toEqual(letter);
  expect(await record.reasons()).toEqual({ invalid: 1 });
  await correctAndRedrive(record);
});

test("a restoration that fails takes its place in the dead letter of the fields", async () => {
  const record = await startRecord({ exists: false });
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("bare_restore", 2);
  await runAbsent(record);
  const letter = { event: 0, reason: "invalid", hasFields: true, later: "active" };
  expect(await record.letter()).toEqual(letter);
  expect(await record.reasons()).toEqual({ invalid: 1 });
  await correctAndRedrive(record);
});

test("a deletion drops the dead letter of the fields once the service proves it", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("delete", 2);
  await record.run();
  expect(await record.letter()).toMatchObject({ event: 0, later: undefined });
  await record.run();
  expect(record.body()).toMatchObject({ relationStatus: "terminated" });
  expect(await record.letter()).toBeUndefined();
  expect(await record.reasons()).toEqual({});
});

test.each([true, false])(
  "fields that come after their record has ended make no dead letter (on the service: %s)",
  async (exists) => {
    const record = await startRecord({ exists });
    await record.accept("delete", 2);
    await record.finish();
    await record.accept("upsert", 1, UNUSABLE);
    expect(await record.letter()).toBeUndefined();
    expect(await record.reasons()).toEqual({});
  },
);

test.each<[string, (record: Awaited<ReturnType<typeof startRecord>>) => Promise<unknown>]>([
  ["waits for its request", async () => {}],
  ["is under way", (record) => record.simulation.start(1, "r0")],
  ["was given up", (record) => record.giveUp("error_after")],
  ["was undone by a restoration", (record) => restoreAfterwards(record)],
])("fields that come late stay in a dead letter: the deletion %s", async (_, before) => {
  const record = await startRecord();
  await record.accept("delete", 2);
  await before(record);
  await record.accept("upsert", 1, UNUSABLE);
  expect(await record.letter()).toMatchObject({ hasFields: true });
});

async function restoreAfterwards(record: Awaited<ReturnType<typeof startRecord>>) {
  await record.finish();
  await record.accept("bare_restore", 3);
  await record.finish();
}

test("a deletion that fails takes its place in the dead letter, and its reason", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("delete", 2);
  await rejectBare(record);
  const letter = {
    event: 0,
    reason: "service_rejected",
    hasFields: true,
    later: "terminated",
  };
  expect(await record.letter()).toEqual(letter);
  expect(await record.reasons()).toEqual({ service_rejected: 1 });
  // Invalid fields do not keep a relation from being terminated; they stay until it is.
  await record.redrive();
  expect(await record.letter()).toEqual(letter);
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 0", relationStatus: "terminated" });
  expect(await record.letter()).toBeUndefined();
});

test("a later event takes the status of a dead letter over, and leaves its fields", async () => {
  const record = await startRecord();
  await record.accept("delete", 0);
  await record.run();
  await record.run();
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("bare_restore", 2);
  await rejectBare(record);
  const letter = { event: 1, reason: "invalid", hasFields: true };
  expect(await record.letter()).toEqual({ ...letter, later: "active" });
  await record.redrive();
  expect(await record.letter()).toEqual({ ...letter, later: "active" });
  await record.accept("bare_restore", 3);
  await record.finish();
  await record.redrive();
  expect(await record.letter()).toEqual({ ...letter, later: "active" });
  await record.accept("delete", 4);
  await rejectBare(record);
  expect(await record.letter()).toMatchObject({ event: 1, later: "terminated" });
  await record.accept("bare_restore", 5);
  expect(await record.letter()).toMatchObject({ event: 1, later: undefined });
});

test("fields that come after the dead letter of a newer deletion are not sent as active", async () => {
  const record = await startRecord();
  await record.accept("delete", 2);
  await rejectBare(record);
  expect(await record.letter()).toMatchObject({ event: 0, hasFields: false });
  await record.accept("upsert", 1, 1);
  expect(await record.letter()).toBeUndefined();
  expect(await record.waiting()).toBe("terminated");
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 1", relationStatus: "terminated" });
});

test("fields that cannot be used join the dead letter of a newer deletion", async () => {
  const record = await startRecord();
  await record.accept("delete", 2);
  await rejectBare(record);
  await record.accept("upsert", 1, UNUSABLE);
  expect(await record.letter()).toEqual({
    event: 1,
    reason: "invalid",
    hasFields: true,
    later: "terminated",
  });
  expect(await record.reasons()).toEqual({ invalid: 1 });
});

test("no dead letter is stored of what a newer state brings, which waits", async () => {
  const record = await startRecord({ exists: false });
  await record.accept("bare_restore", 2);
  await record.simulation.start(1, "r0");
  await record.step();
  // It is taken, and nothing is there to restore.
  await record.accept("upsert", 1, 1);
  await record.run();
  expect(await record.letter()).toBeUndefined();
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 1" });
  expect(await record.letter()).toBeUndefined();
});

test("a dead letter of yesterday, whose fields are older than those of the service, goes or says nothing", async () => {
  const record = await startRecord();
  const { deadLetters, deadMarks } = record.simulation.keys;
  const read = () => Promise.all([deadLetters, deadMarks].map((key) => redis.hgetall(key)));
  await record.accept("upsert", 1, UNUSABLE);
  const [letters = {}, marks = {}] = await read();
  const yesterday = async () => {
    await redis.hset(deadLetters, letters);
    await redis.hset(deadMarks, marks);
  };
  await record.accept("upsert", 2, 2);
  await record.run();
  await yesterday();
  await record.accept("bare_restore", 3);
  expect(await record.letter()).toBeUndefined();
  await record.accept("delete", 4);
  await yesterday();
  await record.run("rejected");
  expect(await record.letter()).toMatchObject({ event: 3, later: undefined });
  await yesterday();
  await record.redrive();
  expect(await record.letter()).toBeUndefined();
});

test("a redrive stores nothing when newer fields were sent meanwhile", async () => {
  const record = await startRecord({ exists: false });
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("bare_restore", 3);
  await runAbsent(record);
  expect(await record.letter()).toMatchObject({ event: 0, later: "active" });
  const { simulation } = record;
  await simulation.redrive(2, "r0");
  // It is about to store that the fields are invalid still.
  await record.accept("upsert", 2, 2);
  await record.run();
  expect(record.body()).toMatchObject({ firstName: "version 2" });
  await simulation.finish();
  expect(await record.letter()).toBeUndefined();
});

test("a state that is verified does not replace fields that came meanwhile", async () => {
  const record = await startRecord();
  const { simulation } = record;
  await record.accept("upsert", 1, 1);
  await record.run("late");
  await simulation.passTime("r0", "very_late");
  await record.accept("delete", 3);
  await record.run();
  await simulation.verify(1);
  // The late request has taken effect: the row of the ledger becomes uncertain.
  await record.step();
  await record.step();
  await record.accept("upsert", 2, 2);
  await record.steps();
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 2", relationStatus: "terminated" });
});

test("a restoration that is verified does not count as one with fields", async () => {
  const record = await startRecord();
  await record.accept("delete", 0);
  await record.run();
  await record.run("late");
  await record.simulation.passTime("r0", "very_late");
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("bare_restore", 2);
  await record.run();
  await record.run();
  expect(record.body()).toMatchObject({ relationStatus: "active" });
  // The deletion takes effect late, and the restoration is sent again.
  await record.finish();
  expect(record.body()).toMatchObject({ relationStatus: "active" });
  expect(await record.letter()).toMatchObject({ event: 1, hasFields: true });
});

test("fields that were given up stay when a restoration is verified", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, 1);
  await record.giveUp("late");
  await record.simulation.passTime("r0", "very_late");
  await record.accept("bare_restore", 2);
  await record.run();
  await record.run();
  // The service has them after the restoration, which is sent again with the fields of before.
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 0" });
  expect(await record.letter()).toMatchObject({ event: 0, hasFields: true });
});

test("a redrive that is rejected keeps the fields while a state without them waits", async () => {
  const record = await startRecord();
  record.simulation.correct();
  await record.accept("upsert", 1, UNUSABLE);
  await record.giveUp("error_before");
  await record.simulation.passTime("r0", "no");
  await record.accept("bare_restore", 2);
  record.simulation.correct(false);
  await record.redrive();
  await record.finish();
  expect(await record.letter()).toMatchObject({ event: 0, reason: "invalid" });
});

test("an older update does not end a deletion that is a dead letter with newer fields", async () => {
  const record = await startRecord();
  await record.accept("delete", 0);
  await record.run();
  await record.run();
  await record.accept("upsert", 2, 1);
  await record.accept("delete", 3);
  await record.run("rejected");
  await record.accept("upsert", 1, 2);
  await record.finish();
  expect(record.body()).toMatchObject({ relationStatus: "terminated" });
});

test("a deletion in a dead letter is carried out though the mapping ignores the record by now", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, 1);
  await record.accept("delete", 2);
  await record.run("rejected");
  record.simulation.ignores = () => "keep";
  await record.redrive();
  await record.finish();
  expect(record.body()).toMatchObject({ relationStatus: "terminated" });
  expect(await record.letter()).toBeUndefined();
});

test.each([
  ["that waited", 1],
  ["of a dead letter", UNUSABLE],
])("the record of an update that left its rule is newer than one %s", async (_which, content) => {
  const record = await startRecord();
  await record.accept("upsert", 1, content);
  record.simulation.ignores = ({ id }) => (id === "1" ? "terminate" : undefined);
  await record.accept("upsert", 2, 2);
  // Without fields, those of the service are read first.
  if (content === UNUSABLE) await record.run();
  await record.run("rejected");
  record.simulation.ignores = () => undefined;
  record.simulation.correct();
  expect(await record.letter()).toMatchObject({ event: 1 });
  await record.redrive();
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 2", relationStatus: "active" });
});

test("a dead letter goes when the change succeeds after a crash", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, 1);
  await record.simulation.start(1, "r0");
  for (const reply of ["ok", "rejected", "ok", "ok"] as const) await record.step(reply);
  expect(await record.letter()).toMatchObject({ event: 0 });
  record.simulation.crash(1);
  await record.simulation.passTime("r0", "no");
  await record.finish();
  expect(record.body()).toMatchObject({ firstName: "version 1" });
  expect(await record.letter()).toBeUndefined();
});

test("the deletion of a dead letter stays when a newer one of an import is cancelled", async () => {
  const record = await startRecord();
  await record.accept("upsert", 1, UNUSABLE);
  await record.accept("delete", 2);
  await rejectBare(record);
  await record.accept("delete", 3);
  expect(await record.letter()).toMatchObject({ event: 0, later: "terminated" });
});
