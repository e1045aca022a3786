/** `crmsync preview` must show what intake and sync do with the same event. */
import { writeFileSync } from "node:fs";
import { afterEach, expect, inject, it } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { loadMapping } from "../../../src/intake/mapping/load-mapping.ts";
import { eventOrder } from "../../../src/core/event/event-order.ts";
import { createLog } from "../../../src/base/log.ts";
import { NO_TRACING, type Note } from "../../../src/base/tracing.ts";
import { previewOne, type Body, type Preview } from "../../../src/whole/preview/preview-one.ts";
import { readInputs } from "../../../src/whole/preview/read-records.ts";
import type { DeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { bodyOf } from "../../../src/core/sync/decide.ts";
import { rowWithoutProof, type LedgerRow } from "../../../src/core/sync/ledger-row.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { rowOf } from "../../../src/core/sync/ledger-row.ts";
import { newestOrders, provenOf } from "../../../src/core/sync/known.ts";
import { syncRelation } from "../../../src/core/sync/sync-relation.ts";
import { startIntake } from "../../../workers/intake.ts";
import { openParts, type Parts } from "../../../workers/parts.ts";
import { personEvent } from "../../support/person-event.ts";
import { listed, ordersAt } from "../../support/stores-of.ts";
import { temporaryFile } from "../../support/temporary-file.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { waitFor } from "../../support/wait-for.ts";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

type Event = ReturnType<typeof personEvent>;

interface Case {
  readonly what: string;
  readonly mapping: string;
  readonly event: Event;
  /** The ledger's row of the record; the ledger is warm. */
  readonly row?: LedgerRow;
  /** What both must show. */
  readonly expected: Partial<Preview>;
}

const event = (
  what: string,
  subject: string,
  data: object | undefined,
  time = new Date().toISOString(),
): Event => personEvent("1", {}, { type: `crm.record.${what}`, subject, data, time });

const orderAt = (time: string) => eventOrder({ time }, 1);

const ada = { type: "Person", crmCode: "1", firstName: "Ada", lastName: "Muster" };

/** The service has answered that it does not have the relation. */
const ABSENT: LedgerRow = { ...rowWithoutProof(false), exists: false, provedAt: 1 };

const CASES: readonly Case[] = [
  {
    what: "a deletion with a leftover record without a key: the subject gives the key",
    mapping: "business-relation",
    event: event("deleted", "contact/1", { record: { deletedBy: "somebody" } }),
    row: rowOf(ada, 1, fingerprintOf),
    expected: { result: "passes", crmCode: "1", status: "terminated", payload: undefined },
  },
  {
    what: "a deletion with a leftover record without a required field",
    mapping: "generic",
    event: event("deleted", "contact/1", { record: { first_name: "Ada" } }),
    row: rowOf({ ...ada, crmCode: "contact-1" }, 1, fingerprintOf),
    expected: { result: "passes", crmCode: "contact-1", status: "terminated", payload: undefined },
  },
  {
    what: "a deletion with its whole record",
    mapping: "business-relation",
    event: event("deleted", "contact/1", { record: ada }),
    row: rowOf(ada, 1, fingerprintOf),
    expected: { result: "passes", crmCode: "1", status: "terminated", decision: "update" },
  },
  {
    what: "a deletion that the service does not need",
    mapping: "business-relation",
    event: event("deleted", "contact/1", undefined),
    row: ABSENT,
    expected: { result: "passes", decision: "skip", why: "nothing_to_terminate" },
  },
  {
    what: "a deletion of a relation that only the list has not shown",
    mapping: "business-relation",
    event: event("deleted", "contact/1", undefined),
    expected: { result: "passes", decision: "fetch", status: "terminated" },
  },
  {
    what: "an event that is older than what was settled",
    mapping: "business-relation",
    event: personEvent("1", { city: "Basel" }, { time: "2026-01-05T08:00:00Z" }),
    row: { ...rowOf(ada, 1, fingerprintOf), orders: ordersAt(orderAt("2026-01-05T09:00:00Z")) },
    expected: { result: "passes", decision: "skip", why: "superseded" },
  },
  {
    what: "a deletion that is older than what was settled",
    mapping: "business-relation",
    event: event("deleted", "contact/1", undefined, "2026-01-05T08:00:00Z"),
    row: { ...rowOf(ada, 1, fingerprintOf), orders: ordersAt(orderAt("2026-01-05T09:00:00Z")) },
    expected: { result: "passes", decision: "skip", why: "superseded" },
  },
  {
    what: "an older event of a record that was deleted since, by an event without fields",
    mapping: "business-relation",
    event: personEvent("1", { city: "Basel" }, { time: "2026-01-05T08:00:00Z" }),
    row: {
      ...rowOf({ ...ada, relationStatus: "terminated" }, 1, fingerprintOf),
      orders: { fields: "", status: orderAt("2026-01-05T09:00:00Z"), is: "terminated" },
    },
    expected: { result: "passes", decision: "update", status: "terminated" },
  },
  {
    what: "a thin deletion",
    mapping: "hubspot",
    event: event("deleted", "contact/1", { fetch: "hubspot" }),
    expected: { result: "to fetch", why: "hubspot" },
  },
  {
    what: "a change of an object that the mapping ignores, without its record",
    mapping: "hubspot",
    event: event("updated", "Conversation/1", { fetch: "hubspot" }),
    expected: { result: "ignored" },
  },
  {
    what: "a change of an object without a rule, without its record",
    mapping: "hubspot",
    event: event("updated", "invoice/1", { fetch: "hubspot" }),
    expected: { result: "dead letter", crmCode: undefined },
  },
  {
    what: "a thin event with another spelling of the id",
    mapping: "salesforce",
    event: event("updated", "Contact/003Qk00000AbC12", { fetch: "salesforce" }),
    expected: { result: "to fetch", crmCode: "salesforce-003Qk00000AbC12IAF" },
  },
  {
    what: "a record without a required field",
    mapping: "generic",
    event: event("updated", "contact/1", { record: { first_name: "Ada", last_name: "Muster" } }),
    expected: { result: "dead letter", crmCode: "contact-1" },
  },
  {
    what: "an invalid payload",
    mapping: "business-relation",
    event: event("updated", "contact/1", { record: { ...ada, lastName: "" } }),
    expected: { result: "dead letter", crmCode: "1" },
  },
  {
    what: "a person that the service has as a company",
    mapping: "business-relation",
    event: event("updated", "contact/1", { record: ada }),
    row: rowOf({ type: "Company", crmCode: "1", name: "Muster & Co" }, 1, fingerprintOf),
    expected: { result: "dead letter", decision: "reject", why: "variant_changed" },
  },
  {
    what: "a restored record without fields that the service does not have",
    mapping: "business-relation",
    event: event("restored", "contact/1", undefined),
    row: ABSENT,
    expected: { result: "dead letter", decision: "reject", why: "nothing_to_restore" },
  },
];

/** To the CRMs that are named in events; nothing is read from them. */
const ACCESS = {
  HUBSPOT_TOKEN: "any",
  SALESFORCE_URL: "https://crm.example",
  SALESFORCE_CLIENT_ID: "any",
  SALESFORCE_CLIENT_SECRET: "any",
};

type Outcome = Note["crmsync.outcome"];

/** A runtime whose ledger is warm, and the outcomes that it reports. */
async function createTestRuntime({ mapping, row, expected }: Case) {
  const outcomes: Outcome[] = [];
  const runtime = openParts({
    config: readConfig({ QUEUE_PREFIX: uniquePrefix(), ...ACCESS }),
    redisUrl: inject("redisUrl"),
    version: "test",
    log: createLog("silent"),
    mapping: await loadMapping(mapping),
    tracing: { ...NO_TRACING, note: (noteOf) => outcomes.push(noteOf()["crmsync.outcome"]) },
  });
  closing.push(() => runtime.close());
  await listed(runtime, row === undefined ? [] : [[expected.crmCode ?? "1", row]]);
  return { runtime, outcomes };
}

/** One preview for each record of the event. */
async function previews(
  { mapping, records, staged, tenantLists }: Parts,
  event: Event,
): Promise<Preview[]> {
  await using file = await temporaryFile("event.json");
  writeFileSync(file.path, JSON.stringify(event));
  const view = {
    lists: tenantLists.current(),
    fingerprintOf,
    async known(crmCode: string) {
      const read = await records.read(crmCode);
      return { row: provenOf(read.row, read.warm), newest: newestOrders(read) };
    },
    codeOf: (subject: string) => staged.codeOf(subject),
    ask: undefined,
  };
  const { inputs } = await readInputs(file.path, mapping, {});
  return Promise.all(inputs.map((input) => previewOne(input, mapping, view)));
}

/** Passes the event through intake, and runs its record until a request would be sent. */
async function processEvent(
  runtime: Parts,
  event: Event,
  outcomes: readonly Outcome[],
): Promise<Partial<Preview>> {
  const intake = startIntake(runtime);
  closing.push(() => intake.close());
  await runtime.inbox.push([event]);
  await waitFor(
    async () => (await runtime.inbox.queue.getJobCountByTypes("wait", "active")) === 0,
    {
      what: "intake has processed the event",
    },
  );
  const [outcome] = outcomes;
  const [crmCode = ""] = await stagedCodes(runtime);
  if (outcome === "staged") return runRecord(runtime, crmCode);
  if (outcome === "rejected") {
    const { crmCode, problems } = await firstDeadLetter(runtime);
    return { result: "dead letter", crmCode, problems };
  }
  if (outcome === "ignored") return { result: "ignored" };
  if (outcome !== undefined) return { result: "passes", decision: "skip", why: String(outcome) };
  const [job] = await runtime.thinEvents.queue.getJobs();
  return { result: "to fetch", why: job?.data.crm };
}

const stagedCodes = ({ redis, keys }: Parts) => redis.zrange(keys.line("live"), "0", "-1");

async function runRecord(runtime: Parts, crmCode: string): Promise<Partial<Preview>> {
  const shown: { -readonly [Key in keyof Preview]?: Preview[Key] } = { result: "passes", crmCode };
  await syncRelation(crmCode, {
    async take() {
      const taken = await runtime.staged.take(crmCode, "test", 60_000);
      if (taken.kind !== "taken") throw new Error("the record is not staged");
      const { payload, status } = taken.state;
      shown.status = status;
      shown.payload =
        payload === undefined ? undefined : bodyOf(JSON.parse(payload) as Body, status);
      return taken;
    },
    lists: () => undefined,
    fingerprintsWithout: () => fingerprintOf,
    admitTermination: async () => true,
    admitUpdate: async () => [],
    isToBeChecked: async () => false,
    async send(decision) {
      shown.decision = decision.kind;
      return { reply: { kind: "throttled" }, isRejecting: false };
    },
    async audit() {},
    async storeDeadLetter(_state, why, problems) {
      Object.assign(shown, { result: "dead letter", decision: "reject", why, problems });
    },
    settle: (state, how) => runtime.staged.settle(state, how),
    now: Date.now,
    retry: { baseMs: 1000, giveUpMs: 1000, holdMs: 1000, verifyMs: 1000, random: Math.random },
    retryShareMs: async () => 0,
  });
  return shown;
}

async function firstDeadLetter({ deadLetters }: Parts): Promise<DeadLetter> {
  for await (const deadLetter of deadLetters.all()) return deadLetter;
  throw new Error("there is no dead letter");
}

it.for(CASES)("$what", async (one) => {
  const { runtime, outcomes } = await createTestRuntime(one);
  const [previewed] = await previews(runtime, one.event);
  const done = await processEvent(runtime, one.event, outcomes);
  expect(previewed).toMatchObject(done);
  expect({ ...previewed, ...done }).toMatchObject(one.expected);
  expect(done.result).toBe(one.expected.result);
});

it("a merge: the records that were merged away end, too", async () => {
  const merge = event("merged", "contact/1", { record: ada, merged: ["contact/2", "contact/3"] });
  const row = rowOf({ ...ada, crmCode: "2" }, 1, fingerprintOf);
  const one = {
    what: "",
    mapping: "business-relation",
    event: merge,
    row,
    expected: { crmCode: "2" },
  };
  const { runtime, outcomes } = await createTestRuntime(one);
  const previewed = await previews(runtime, merge);
  expect(previewed).toMatchObject([
    { subject: "contact/2", crmCode: "2", status: "terminated", decision: "fetch" },
    { subject: "contact/3", crmCode: "3", status: "terminated", decision: "fetch" },
    { subject: "contact/1", crmCode: "1", status: "mapped", decision: "create" },
  ]);
  await processEvent(runtime, merge, outcomes);
  expect((await stagedCodes(runtime)).toSorted()).toEqual(["1", "2", "3"]);
  expect(previewed[0]).toMatchObject(await runRecord(runtime, "2"));
});
