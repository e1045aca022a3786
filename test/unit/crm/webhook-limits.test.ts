/** Bodies that are about more records than any CRM sends at once. */
import { expect, test } from "vitest";
import type { CrmConnector } from "../../../src/intake/crm/connector.ts";
import { espocrm } from "../../../src/intake/crm/espocrm.ts";
import { hubspot } from "../../../src/intake/crm/hubspot.ts";
import { salesforce } from "../../../src/intake/crm/salesforce.ts";

function eventsOf(connector: CrmConnector, body: unknown, canFetch = true): number {
  const request = {
    path: "Contact/update",
    urls: [],
    query: new URLSearchParams(),
    headers: {},
    body: Buffer.from(JSON.stringify(body)),
    receivedAt: 0,
  };
  return connector.toEvents(request, canFetch).events.length;
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

const merge = (count: number) => ({
  subscriptionType: "contact.merge",
  objectId: 1,
  mergedObjectIds: numbers(count),
  occurredAt: 1_795_215_206_276,
});

const created = (count: number, text = "") => ({
  ChangeEventHeader: {
    entityName: "Contact",
    changeType: "CREATE",
    transactionKey: "t",
    commitNumber: 1,
    recordIds: numbers(count).map((n) => String(n).padStart(15, "0")),
  },
  LastName: text,
});

test("HubSpot: records of one merge, of all merges together, and changes", () => {
  expect(() => eventsOf(hubspot, [merge(100_000)])).toThrow(
    "mergedObjectIds has 100000 entries: send at most 10000 at once",
  );
  expect(() =>
    eventsOf(
      hubspot,
      numbers(11).map(() => merge(1000)),
    ),
  ).toThrow("too many records");
  expect(() => eventsOf(hubspot, numbers(10_001))).toThrow("the body has 10001 entries");
  expect(eventsOf(hubspot, [merge(2)])).toBe(2);
});

test("Salesforce: ids of one change, changes, and copies of one large record", () => {
  expect(() => eventsOf(salesforce, created(100_000))).toThrow("recordIds has 100000 entries");
  expect(() => eventsOf(salesforce, numbers(10_001))).toThrow("the body has 10001 entries");
  expect(() => eventsOf(salesforce, created(100, "x".repeat(1_000_000)), false)).toThrow(
    "recordIds has 100 entries, each with a copy of a large record",
  );
  expect(eventsOf(salesforce, created(100, "x".repeat(1_000_000)))).toBe(100);
  expect(eventsOf(salesforce, created(1, "x".repeat(1_000_000)), false)).toBe(1);
  expect(eventsOf(salesforce, created(5000), false)).toBe(5000);
});

test("EspoCRM: records", () => {
  expect(() => eventsOf(espocrm, numbers(10_001))).toThrow("the body has 10001 entries");
});
