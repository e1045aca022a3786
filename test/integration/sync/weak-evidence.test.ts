/** What is not believed at once: one odd answer, a read that lags, a deletion of another record. */
import { expect, onTestFinished, test } from "vitest";
import { readOne } from "../../../src/base/redis-reading.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import { takeReadings } from "../../../src/operate/status/readings.ts";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import type { ServiceReply } from "../../../src/core/sync/service-reply.ts";
import { rowOf } from "../../../src/core/sync/ledger-row.ts";
import { openPorts } from "../../../workers/intake.ts";
import type { Parts } from "../../../workers/parts.ts";
import { startSync } from "../../../workers/sync.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { ScriptedService } from "../../support/scripted-service.ts";
import { editStaged, listed, stateOf } from "../../support/stores-of.ts";
import { waitFor } from "../../support/wait-for.ts";

const body = (crmCode: string, more: object = {}) => ({
  type: "Person",
  crmCode,
  firstName: "Ada",
  lastName: "Muster",
  ...more,
});

function startLoop(runtime: Parts): ScriptedService {
  const service = new ScriptedService();
  const sync = startSync(runtime, service.access());
  onTestFinished(() => {
    service.end();
    return sync.close();
  });
  return service;
}

/** The service has these relations, and has listed them. */
const serviceHas = (runtime: Parts, ...relations: readonly ReturnType<typeof body>[]) =>
  listed(
    runtime,
    relations.map((one) => [one.crmCode, rowOf(one, 1, fingerprintOf)] as const),
  );

/** Each request, also those to come, gets this reply. */
async function answerAll(service: ScriptedService, reply: ServiceReply): Promise<void> {
  let answered = 0;
  const timer = setInterval(() => {
    for (; answered < service.requests.length; answered += 1)
      service.requests[answered]?.reply(reply);
  }, 5);
  onTestFinished(() => clearInterval(timer));
}

let arrivals = 0;
/** As intake does. */
async function accept(runtime: Parts, event: Record<string, unknown>) {
  arrivals += 1;
  const ports = await openPorts(runtime).current();
  const { records } = await acceptEvent(event, { at: Date.now(), number: arrivals }, ports);
  return records.map(({ result }) => result);
}

const SECOND = 1000;
const at = (second: number) =>
  new Date(Date.parse("2026-01-01T00:00:00Z") + second * SECOND).toISOString();

const updated = (crmCode: string, subject: string, second: number, fields: object = {}) =>
  personEvent(crmCode, { ...fields }, { subject, time: at(second) });

const deleted = (subject: string, second: number) =>
  personEvent("", {}, { type: "crm.record.deleted", subject, time: at(second), data: undefined });

/** No change waits. */
const settled = ({ line, redis }: Parts) =>
  waitFor(async () => (await readOne(redis, line.counts())).unsynced.live === 0, {
    what: "nothing waits",
  });

/** What waits of the record is due now. */
const makeDue = (runtime: Parts, crmCode: string) =>
  editStaged(runtime, crmCode, (staged) => ({ ...staged, due: undefined }));

test("two false 404s do not end a deletion for good: it is verified minutes later, and sent again", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { keys, ledger, redis } = runtime;
  await serviceHas(runtime, body("4711"));
  const service = startLoop(runtime);
  expect(await accept(runtime, deleted("contact/4711", 1))).toEqual(["staged"]);
  (await service.nth(1)).reply({ kind: "missing" });
  (await service.nth(2)).reply({ kind: "missing" });
  await settled(runtime);
  expect(await ledger.row("4711")).toMatchObject({ exists: false });
  const [crmCode, due] = await redis.zrange(keys.later, "0", "-1", "WITHSCORES");
  expect(crmCode).toBe("4711");
  expect(Number(due)).toBeGreaterThan(Date.now() + 60 * SECOND);

  await makeDue(runtime, "4711");
  (await service.nth(3)).reply({ kind: "found", body: body("4711") });
  (await service.nth(4)).reply({ kind: "found", body: body("4711") });
  const sent = await service.nth(5);
  expect(sent.decision).toMatchObject({ kind: "update", body: { relationStatus: "terminated" } });
  sent.reply({ kind: "updated" });
  await settled(runtime);
  expect(await ledger.row("4711")).toMatchObject({ exists: true, terminated: true });
});

test("a deletion that was answered by 404s is verified once, and that is all when they were true", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { keys, redis } = runtime;
  await serviceHas(runtime, body("4711"));
  const service = startLoop(runtime);
  await accept(runtime, deleted("contact/4711", 1));
  (await service.nth(1)).reply({ kind: "missing" });
  (await service.nth(2)).reply({ kind: "missing" });
  await settled(runtime);
  await makeDue(runtime, "4711");
  (await service.nth(3)).reply({ kind: "missing" });
  await waitFor(async () => (await redis.exists(keys.staged("4711"), keys.later)) === 0, {
    what: "it is verified",
  });
  expect(service.requests).toHaveLength(3);
});

test("lists that change while changes wait: each record is one dead letter that names the field, without a request", async () => {
  const runtime = newRuntime();
  const { deadLetters, tenantLists } = runtime;
  const lists = (...values: string[]) => ({
    fields: { service: { type: "string", values, multiSelect: true } },
  });
  await tenantLists.store(lists("family_office"), Date.now());
  await serviceHas(runtime, body("r1"));
  const codes = ["r0", "r1", "r2"];
  for (const code of codes) {
    const event = updated(code, `contact/${code}`, 1, { service: ["family_office"] });
    expect(await accept(runtime, event)).toEqual(["staged"]);
  }
  await tenantLists.store(lists("another"), Date.now());
  const service = startLoop(runtime);
  await settled(runtime);
  expect(service.requests).toHaveLength(0);
  expect(await deadLetters.count()).toBe(codes.length);
  for await (const letter of deadLetters.all()) {
    expect(letter).toMatchObject({ reason: "invalid", hasFields: true });
    expect(letter.problems.map(({ field }) => field)).toEqual(["service[0]"]);
  }
});

/** Our own answered write has proved this of the relation. */
const weWrote = async (runtime: Parts, relation: ReturnType<typeof body>) =>
  listed(runtime, [
    [relation.crmCode, { ...rowOf(relation, Date.now(), fingerprintOf), written: true }],
  ]);

/** A day of the quota takes so long that what is read is believed after a fifth of a second. */
const SOON = { RETRY_BASE_MS: "10", QUOTA_HOUR_MS: "1200" };

test("a read that shows something else than our own write proved is repeated, with growing pauses", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { staged } = runtime;
  const [older, newer] = [body("4711"), body("4711", { city: "Bern" })];
  await weWrote(runtime, newer);
  const service = startLoop(runtime);
  await accept(runtime, deleted("contact/4711", 1));
  const waits = async (ms: number) =>
    waitFor(
      async () => {
        const [change] = await staged.waiting(["4711"]);
        return change?.taken === undefined && (change?.due ?? 0) > Date.now() + ms;
      },
      { what: "it waits for the copy" },
    );
  (await service.nth(1)).reply({ kind: "found", body: older });
  await waits(SECOND);
  await editStaged(runtime, "4711", ({ confirm, ...change }) => ({
    ...change,
    due: undefined,
    confirm: confirm && { ...confirm, since: confirm.since - 100 * SECOND },
  }));
  (await service.nth(2)).reply({ kind: "found", body: older });
  await waits(60 * SECOND);
  expect(service.requests).toHaveLength(2);
  await makeDue(runtime, "4711");
  (await service.nth(3)).reply({ kind: "found", body: newer });
  const sent = await service.nth(4);
  expect(sent.decision).toEqual({
    kind: "update",
    body: { ...newer, relationStatus: "terminated" },
  });
});

test("a termination that must read, and still reads something else, is held for a person", async () => {
  const runtime = newRuntime(SOON);
  const { heldTerminations } = runtime;
  await weWrote(runtime, body("4711", { taxIdentificationNumber: "1234" }));
  const service = startLoop(runtime);
  await accept(runtime, deleted("contact/4711", 1));
  const masked = body("4711", { taxIdentificationNumber: "*****" });
  await answerAll(service, { kind: "found", body: masked });
  await waitFor(async () => (await heldTerminations.find("4711"))?.why === "differs", {
    what: "it is held",
  });
  expect(service.requests.every(({ decision }) => decision.kind === "fetch")).toBe(true);
  // A person has looked at it.
  await heldTerminations.release("4711");
  await waitFor(() => service.requests.some(({ decision }) => decision.kind === "update"), {
    what: "it is sent",
  });
});

test("an old copy that shows what is wanted is not believed", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { keptFields, staged } = runtime;
  const keeps = { Person: { maidenName: "always" } } as const;
  await keptFields.adopt(keeps);
  await weWrote(runtime, body("4711", { city: "Bern" }));
  const service = startLoop(runtime);
  await accept(runtime, updated("4711", "contact/4711", 1));
  const request = await service.nth(1);
  expect(request.decision.kind).toBe("fetch");
  request.reply({ kind: "found", body: body("4711") });
  await waitFor(async () => (await staged.waiting(["4711"]))[0]?.confirm?.why === "lagging", {
    what: "it is doubted",
  });
});

test("what was not understood is read before each update, however old the row is", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { staged } = runtime;
  const service = startLoop(runtime);
  const stageWithout = (order: string, fields: object) =>
    staged.stage({
      ...stateOf("4711", order),
      payload: JSON.stringify(body("4711", fields)),
      fingerprint: fingerprintOf(body("4711", fields), ["birthDate", "vatNumber"]),
      notUnderstood: ["birthDate"],
    });
  await stageWithout("1", { city: "Zug" });
  (await service.nth(1)).reply({ kind: "created" });
  await settled(runtime);
  await stageWithout("2", { city: "Bern" });
  const read = await service.nth(2);
  expect(read.decision.kind).toBe("fetch");
  // A person has entered it at the service meanwhile.
  read.reply({ kind: "found", body: body("4711", { city: "Zug", birthDate: "1980-01-01" }) });
  expect((await service.nth(3)).decision).toMatchObject({
    kind: "update",
    body: { city: "Bern", birthDate: "1980-01-01" },
  });
});

test("one 404 about an unknown relation is no proof for a bare restoration", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { ledger } = runtime;
  const service = startLoop(runtime);
  await accept(runtime, { ...deleted("contact/4711", 1), type: "crm.record.restored" });
  (await service.nth(1)).reply({ kind: "missing" });
  const again = await service.nth(2);
  expect((await ledger.row("4711"))?.exists).toBeUndefined();
  expect(again.decision.kind).toBe("fetch");
  again.reply({ kind: "found", body: body("4711", { relationStatus: "terminated" }) });
  expect((await service.nth(3)).decision).toMatchObject({
    kind: "update",
    body: { relationStatus: "active" },
  });
});

test("a 202 that was replaced before it was looked for is marked: the next proof is read once more", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  const { ledger, staged } = runtime;
  await serviceHas(runtime, body("4711"));
  const service = startLoop(runtime);
  await accept(runtime, updated("4711", "contact/4711", 1, { city: "Zug" }));
  const first = await service.nth(1);
  await accept(runtime, updated("4711", "contact/4711", 2, { city: "Bern" }));
  first.reply({ kind: "accepted" });
  (await service.nth(2)).reply({ kind: "updated" });
  await settled(runtime);
  expect(await ledger.row("4711")).toMatchObject({ uncertain: true });
  expect((await staged.waiting(["4711"]))[0]?.confirm?.why).toBe("late");
});

test.for([
  ["the duplicate that came last", "contact/2"],
  ["the record that came first", "contact/1"],
])(
  "of two records of the CRM with one crmCode, the deletion of %s is held for a person",
  async ([, subject = ""]) => {
    const runtime = newRuntime({ RETRY_BASE_MS: "10" });
    const { heldTerminations, ledger } = runtime;
    await listed(runtime, []);
    const service = startLoop(runtime);
    await accept(runtime, updated("c1", "contact/1", 1));
    (await service.nth(1)).reply({ kind: "created" });
    await settled(runtime);
    // The duplicate is equal, so nothing is sent for it.
    expect(await accept(runtime, updated("c1", "contact/2", 2))).toEqual(["unchanged"]);
    expect(await accept(runtime, deleted(subject, 3))).toEqual(["held"]);
    expect(await heldTerminations.find("c1")).toMatchObject({ why: "other_record" });
    expect(await ledger.row("c1")).toMatchObject({ terminated: false });
    // A change of the record that is left replaces the deletion.
    expect(await accept(runtime, updated("c1", "contact/1", 4, { city: "Bern" }))).toEqual([
      "staged",
    ]);
    expect((await service.nth(2)).decision).toMatchObject({ kind: "update" });
    expect(await heldTerminations.find("c1")).toBeUndefined();
  },
);

test("the deletion of a duplicate whose change still waits is held, and so is one that comes with its record", async () => {
  const runtime = newRuntime();
  const { heldTerminations } = runtime;
  for (const crmCode of ["c1", "c2"]) {
    await accept(runtime, updated(crmCode, `contact/1-${crmCode}`, 1));
    await accept(runtime, updated(crmCode, `contact/2-${crmCode}`, 2, { city: "Bern" }));
  }
  expect(await accept(runtime, deleted("contact/2-c1", 3))).toEqual(["held"]);
  const whole = personEvent(
    "c2",
    {},
    { type: "crm.record.deleted", subject: "contact/2-c2", time: at(3) },
  );
  expect(await accept(runtime, whole)).toEqual(["held"]);
  for (const crmCode of ["c1", "c2"])
    expect(await heldTerminations.find(crmCode)).toMatchObject({ why: "other_record" });
});

test("a record's own deletion is not held, however its CRM writes the object's name", async () => {
  const runtime = newRuntime();
  await accept(runtime, updated("4711", "contact/4711", 1));
  expect(await accept(runtime, deleted("Contact/4711", 2))).toEqual(["staged"]);
});

test("a deletion without its record ends the relation to which the record led", async () => {
  const runtime = newRuntime();
  const { ledger, line } = runtime;
  await serviceHas(runtime, body("c1"));
  expect(await accept(runtime, updated("c1", "contact/1", 1))).toEqual(["unchanged"]);
  // The mapping alone would make `1` of it, which nobody has.
  expect(await accept(runtime, deleted("contact/1", 2))).toEqual(["staged"]);
  expect(await line.unsynced(["c1", "1"])).toEqual(["c1"]);
  const restored = { ...deleted("contact/1", 3), type: "crm.record.restored" };
  expect(await accept(runtime, restored)).toEqual(["unchanged"]);
  expect(await ledger.row("c1")).toMatchObject({ orders: { is: "active" } });
});

test("a record that was merged away ends under the crmCode to which it led", async () => {
  const runtime = newRuntime();
  const { staged } = runtime;
  await accept(runtime, updated("c1", "contact/1", 1));
  const merge = personEvent(
    "c2",
    {},
    { type: "crm.record.merged", subject: "contact/2", time: at(2) },
  );
  Object.assign(merge["data"] as object, { merged: ["contact/1"] });
  expect(await accept(runtime, merge)).toEqual(["staged", "staged"]);
  expect(await staged.waiting(["c1", "c2"])).toMatchObject([
    { status: { is: "terminated" } },
    { status: { is: "mapped" } },
  ]);
});

test("deletions that named a relation which was never known are counted, and told", async () => {
  const runtime = newRuntime({ RETRY_BASE_MS: "10" });
  await serviceHas(runtime, body("known"));
  const service = startLoop(runtime);
  await accept(runtime, deleted("contact/1", 1));
  (await service.nth(1)).reply({ kind: "missing" });
  await settled(runtime);
  // These were known: by an event, and by the list.
  await accept(runtime, updated("sent", "contact/sent", 1));
  await accept(runtime, deleted("contact/sent", 2));
  (await service.nth(2)).reply({ kind: "missing" });
  await accept(runtime, deleted("contact/known", 2));
  (await service.nth(3)).reply({ kind: "missing" });
  (await service.nth(4)).reply({ kind: "missing" });
  await settled(runtime);
  const counts = await runtime.metrics.sharedCounts();
  expect(counts.get("relation_unknown")).toBe(1);
  const minutes = [{ since: 0, counts: { relation_unknown: 1 } }];
  const readings = { ...(await takeReadings(runtime)), minutes };
  const says = findingsIn(readings, 3_600_000).map((one) => one.says);
  expect(says).toContainEqual(
    expect.stringMatching(/^In the last hour 1 deletion named a relation that was never known/),
  );
});
