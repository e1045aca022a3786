/** Events of records that belong to others: what they ask for. */
import { expect, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { acceptEvent } from "../../../src/core/sync/accept-event.ts";
import { openPorts } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";

const RELATION = {
  owners: ["contact"],
  name: "company",
  object: "company",
  many: false,
  by: undefined,
  of: undefined,
  isPart: true,
};

async function accept(
  objects: readonly string[],
  event: Record<string, unknown>,
  env: Record<string, string> = { HUBSPOT_TOKEN: "token" },
) {
  const mapping = { ...businessRelationMapping, objects, relations: [RELATION] };
  const runtime = newRuntime(env, mapping);
  await runtime.clock.measure();
  const ports = await openPorts(runtime).current();
  const whole = {
    ...personEvent("7", {}, { source: "/hubspot/1" }),
    subject: "company/11",
    ...event,
  };
  const { records } = await acceptEvent(whole, { at: Date.now(), number: 1 }, ports);
  const jobs = await runtime.thinEvents.queue.getJobs(["wait", "delayed"]);
  const asked = jobs.map(
    ({ data, opts }) => `${data.subject} ${data.role ?? "own"} ${opts.delay ?? 0}`,
  );
  return { records, asked: asked.toSorted(), runtime };
}

const THIN = { data: { fetch: "hubspot" } };

test("a part without a rule asks for its owners, one with a rule for itself as well", async () => {
  const part = await accept(["contact"], THIN);
  expect(part.asked).toEqual(["company/* part 6000"]);
  expect(part.records).toMatchObject([{ result: "fetching" }]);
  const both = await accept(["contact", "company"], THIN);
  expect(both.asked).toEqual(["company/* part 6000", "company/11 own 0"]);
  // What the fetch brings asks for nothing more.
  const fetched = await accept(["contact", "company"], { id: "1+record-abc" });
  expect(fetched.asked).toEqual([]);
  // A contact is no part.
  expect((await accept(["contact"], { ...THIN, subject: "contact/11" })).asked).toEqual([
    "contact/11 own 0",
  ]);
});

test("a deletion asks for the owners, too, and no value of the record waits for them", async () => {
  const type = "crm.record.deleted";
  const { asked, runtime } = await accept(["contact"], { type, data: { record: { secret: "x" } } });
  expect(asked).toEqual(["company/* part 6000"]);
  const taken = await runtime.thinEvents.take({
    crm: "hubspot",
    role: "part",
    subject: "company/11",
  });
  expect(JSON.parse(taken?.event ?? "")).toMatchObject({ type, data: { fetch: "hubspot" } });
  expect(taken?.event).not.toContain("secret");
});

test("an owner that is named waits for more changes; without a CRM to ask the event is a dead letter", async () => {
  const named = await accept(["contact"], { data: { of: "contact/5", fetch: "hubspot" } });
  expect(named.asked).toEqual(["contact/5 whole 60000"]);
  for (const [event, env, rule] of [
    [
      { source: "/own", data: { record: {} } },
      { HUBSPOT_TOKEN: "t" },
      /^must name the record to which company\/11 belongs/,
    ],
    [THIN, {}, /set HUBSPOT_TOKEN$/],
  ] as const) {
    const { asked, records } = await accept(["contact"], event, env);
    expect(asked).toEqual([]);
    expect(records).toMatchObject([{ result: "rejected", reason: "not_fetched" }]);
    expect(records[0]?.problems?.[0]?.rule).toMatch(rule);
  }
});
