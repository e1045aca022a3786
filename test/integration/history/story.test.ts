/** Names that lead to several relations, to none, or to one that only the past knows. */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { eventOrder } from "../../../src/core/event/event-order.ts";
import { storyOf } from "../../../src/people/history/story.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { RecordNames } from "../../../src/core/state/record-names.ts";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { openPorts } from "../../../workers/intake.ts";
import { redriveDeadLetter } from "../../../workers/redrive.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";

const change = (crmCode: string, subject: string): StateToStage => ({
  crmCode,
  eventKey: "",
  order: "2026-11-22T10:41:00.000000000Z",
  payload: "{}",
  fingerprint: "f",
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: Date.parse("2026-11-22T10:41:00Z"),
  event: JSON.stringify(personEvent(crmCode)),
  noted: {
    event: {
      source: "/crm/test",
      id: crmCode,
      type: "updated",
      subject,
      time: undefined,
      warnings: ["phoneNumber:not_a_number"],
      redriven: false,
    },
    ignored: undefined,
  },
});

test("a record that led to two crmCodes: it tells of the newest, and names the other", async () => {
  const runtime = newRuntime();
  await runtime.staged.stage(change("old-7", "contact/7"));
  await runtime.staged.stage(change("new-7", "contact/7"));
  const story = await storyOf(runtime, "contact/7", businessRelationMapping);
  expect(story).toMatchObject({ crmCode: "new-7", subject: "contact/7", fate: "stopped" });
  expect(story.others).toEqual([
    { crmCode: "old-7", answer: expect.stringMatching(/^waits because/) as string },
  ]);
  expect(story.steps[0]?.says).toMatch(
    /^event updated of contact\/7, from \/crm\/test, id new-7: accepted.*; left out or changed: phoneNumber:not_a_number$/,
  );
});

test("a crmCode that looks like a record of the CRM is a crmCode first", async () => {
  const runtime = newRuntime();
  await runtime.staged.stage(change("contact/7", "lead/1"));
  await runtime.staged.stage(change("other", "contact/7"));
  const story = await storyOf(runtime, "contact/7", businessRelationMapping);
  expect(story.crmCode).toBe("contact/7");
  expect(story.others).toMatchObject([{ crmCode: "other" }]);
});

test("a name that nothing has lists the records that may be meant, each with its fate", async () => {
  const runtime = newRuntime();
  const ports = await openPorts(runtime).current();
  const accept = (event: unknown) => acceptEvent(event, { at: Date.now(), number: 1 }, ports);
  await runtime.staged.stage(change("K-Abc", "Contact/7"));
  await runtime.staged.stage({ ...change("p7", "company/77"), lane: "bulk" });
  await runtime.staged.stage(change("17", "contact/17"));
  await runtime.staged.stage(change("sf-003Qy00000AbCdEIAV", "Contact/003Qy00000AbCdEIAV"));
  const guid = "0f8fad5b-d9cb-469f-a165-70867728950e";
  await runtime.staged.stage(change(guid, `account/${guid}`));
  await accept(personEvent("", {}, { subject: "lead/unmapped" }));
  const similarTo = async (name: string) => {
    const { fate, similar } = await storyOf(runtime, name, businessRelationMapping);
    expect(fate).toBe("unknown");
    return similar.map((one) => `${one.name} ${one.crmCode ?? "-"}`).sort();
  };
  expect(await similarTo("k-abc")).toEqual(["K-Abc K-Abc"]);
  expect(await similarTo("7")).toEqual(["Contact/7 K-Abc", "p7 p7"]);
  expect(await similarTo("contact/7")).toEqual(["Contact/7 K-Abc", "p7 p7"]);
  expect(await similarTo(" K-Abc ")).toEqual(["K-Abc K-Abc"]);
  expect(await similarTo(`{${guid.toUpperCase()}}`)).toEqual([`account/${guid} ${guid}`]);
  for (const id of ["003Qy00000AbCdE", "003qy00000abcde", "003QY00000ABCDEIAV"])
    expect(await similarTo(id)).toEqual([expect.stringMatching(/ sf-003Qy00000AbCdEIAV$/)]);
  expect(await similarTo("Lead/UNMAPPED")).toEqual(["lead/unmapped -"]);
  expect(await similarTo("*")).toEqual([]);
  expect(await similarTo("never")).toEqual([]);
  const told = await storyOf(runtime, "unmapped", businessRelationMapping);
  expect(told.answer).toBe("nothing is known by exactly this name; 1 record has a similar one");
  expect(told.similar[0]?.answer).toMatch(/^was rejected at /);
});

test("a record whose first event was rejected is found by the name that the CRM has for it", async () => {
  for (const HISTORY_DAYS of ["30", "0"]) {
    const runtime = newRuntime({ HISTORY_DAYS });
    const ports = await openPorts(runtime).current();
    const event = personEvent("C-9", { lastName: "" }, { subject: "contact/9" });
    await acceptEvent(event, { at: Date.now(), number: 1 }, ports);
    const told = await storyOf(runtime, "contact/9", businessRelationMapping);
    expect(told).toMatchObject({ fate: "rejected", crmCode: "C-9", deadLetter: "c:C-9" });
    expect(await new RecordNames(runtime).letters("contact/9")).toEqual(["c:C-9"]);
    if (HISTORY_DAYS === "0") continue;
    await runtime.deadLetters.drop("c:C-9");
    const dropped = await storyOf(runtime, "contact/9", businessRelationMapping);
    expect(dropped).toMatchObject({ fate: "rejected", crmCode: "C-9", deadLetter: null });
  }
});

test("what a person did is a step, and without a history the present still answers", async () => {
  const runtime = newRuntime();
  await runtime.staged.stage(change("c-7", "contact/7"));
  await runtime.auditActs.record({ act: "held.drop", by: "ada@host", crmCode: "c-7" });
  const { steps } = await storyOf(runtime, "c-7", businessRelationMapping);
  expect(steps[0]).toMatchObject({ kind: "act", says: "ada@host dropped its held change" });

  const off = newRuntime({ HISTORY_DAYS: "0" });
  await off.staged.stage(change("c-7", "contact/7"));
  expect(await storyOf(off, "c-7", businessRelationMapping)).toMatchObject({
    fate: "stopped",
    historySince: null,
    steps: [],
  });
  expect(await storyOf(off, "contact/7", businessRelationMapping)).toMatchObject({
    fate: "stopped",
    crmCode: "c-7",
  });
});

test("a dead letter without a crmCode is found by the record of its event, however long the event's id", async () => {
  const runtime = newRuntime();
  const ports = await openPorts(runtime).current();
  const event = personEvent("", {}, { subject: "contact/7", id: `urn:uuid:${randomUUID()}` });
  await acceptEvent(event, { at: Date.now(), number: 1 }, ports);
  expect(await runtime.deadLetters.count()).toBe(1);
  const told = await storyOf(runtime, "contact/7", businessRelationMapping);
  expect(told).toMatchObject({ fate: "rejected", crmCode: null });
  expect(told.remedy).toMatch(/crmsync dead show e:\S+; crmsync dead redrive e:\S+ --apply$/);
});

test("a redriven deletion waits, although the dead letter with its fields stays until it is done", async () => {
  const runtime = newRuntime();
  const { auditActs, deadLetters } = runtime;
  const ports = await openPorts(runtime).current();
  const update = personEvent("7", { birthDate: "1.2.80" });
  await acceptEvent(update, { at: Date.now(), number: 1 }, ports);
  const [letter] = await Array.fromAsync(deadLetters.all());
  // The service was away for too long for the deletion that came then.
  const deletion = personEvent("7", {}, { type: "crm.record.deleted", data: undefined });
  const [order, minuteAgo] = [`${letter?.order}1`, Date.now() - 60_000];
  const newest = { order, status: "terminated" } as const;
  const more = { reason: "given_up", problems: [], event: JSON.stringify(deletion) } as const;
  await deadLetters.store(
    createDeadLetter({ crmCode: "7" }, { ...more, order, newest, hasFields: false, at: minuteAgo }),
  );
  await auditActs.record({ act: "dead.redrive", by: "ada@host", crmCode: "7" });
  expect(await redriveDeadLetter(runtime, "c:7", ports)).toBe("done");
  expect(await deadLetters.count()).toBe(1);
  const told = await storyOf(runtime, "7", businessRelationMapping);
  expect(told.fate).toBe("stopped");
  expect(told.answer).toMatch(
    /^waits because .*; its fields are in a dead letter: the record was rejected at \S+: given_up$/,
  );
});

test("a redriven termination that is held happened when its event says, not at the redrive", async () => {
  const runtime = newRuntime();
  const { deadLetters, heldTerminations, staged } = runtime;
  const time = "2026-11-20T09:30:11.902Z";
  const deletion = personEvent("7", {}, { type: "crm.record.deleted", time, data: undefined });
  const order = eventOrder({ time }, 1);
  const newest = { order, status: "terminated" } as const;
  const more = { reason: "given_up", problems: [], event: JSON.stringify(deletion) } as const;
  await deadLetters.store(
    createDeadLetter(
      { crmCode: "7" },
      { ...more, order, newest, hasFields: false, at: Date.now() },
    ),
  );
  await redriveDeadLetter(runtime, "c:7", await openPorts(runtime).current());
  const taken = await staged.take("7", "worker", 60_000);
  if (taken.kind !== "taken") throw new Error("not taken");
  await staged.settle(taken.state, { row: "before", finished: false, held: { why: "limit" } });
  expect(await heldTerminations.find("7")).toMatchObject({ time: Date.parse(time) });
  const { answer } = await storyOf(runtime, "7", businessRelationMapping);
  expect(answer).toMatch(/^its termination \(event of 2026-11-20T09:30:11Z\) is held/);
});
