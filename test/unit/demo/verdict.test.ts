import { expect, test } from "vitest";
import type { Figures } from "../../../src/demo/figures.ts";
import { findFailures, renderVerdict, verdictJson } from "../../../src/demo/verdict.ts";
import type { Verdict } from "../../../src/demo/verdict.ts";

const figures: Figures = {
  progress: 1,
  scheduled: 726,
  delivered: 726,
  sentTwice: 35,
  coalesced: 84,
  unchanged: 79,
  superseded: 64,
  deadLetters: 11,
  service: { requests: 446, created: 204, updated: 238, throttled: 0 },
  quota: { limit: 1000, remaining: 554 },
  freshness: { p50: 1, p99: 5 },
  backlog: { inbox: 0, records: 0, oldest: 0 },
  daemon: { pid: 4711, restarts: 0 },
};

const verdict: Verdict = {
  seed: 1,
  clients: 200,
  seconds: 60,
  settled: true,
  pending: "",
  differences: [],
  relations: 204,
  terminated: 4,
  expectedDeadLetters: 11,
  netChanges: 442,
  figures,
};

const plain = (_: string, text: string): string => text;

test("the verdict EQUAL states the requests per net change", () => {
  expect(findFailures(verdict)).toEqual([]);
  const text = renderVerdict(verdict, plain);
  expect(text).toMatch(/^EQUAL {2}all 204 relations/);
  expect(text).toContain("1.009 per net change");
  expect(verdictJson(verdict)).toMatchObject({ equal: true, requests: 446, netChanges: 442 });
});

test.each<[string, Partial<Verdict>, RegExp]>([
  [
    "a field",
    { differences: [{ crmCode: "C-1", field: "city", crm: "Chur", service: undefined }] },
    /C-1 city: "Chur" in the CRM, nothing on the service/,
  ],
  [
    "a missing dead letter",
    { figures: { ...figures, deadLetters: 10 } },
    /dead letters: 10, but 11 records are wrong in the CRM/,
  ],
  [
    "a 429",
    { figures: { ...figures, service: { ...figures.service, throttled: 2 } } },
    /429 to 2 requests/,
  ],
  [
    "a change that was not settled",
    { settled: false, pending: "3 records" },
    /not all changes were settled: 3 records/,
  ],
])("%s makes the verdict NOT EQUAL and is listed", (_, change, named) => {
  const faulty = { ...verdict, ...change };
  expect(findFailures(faulty)).toEqual([expect.stringMatching(named)]);
  expect(renderVerdict(faulty, plain)).toMatch(/^NOT EQUAL {2}1 failure\n/);
  expect(verdictJson(faulty)).toMatchObject({ equal: false });
});

test("of many differences it lists the first ones and the number of the others", () => {
  const differences = Array.from({ length: 50 }, (_, i) => ({
    crmCode: `C-${i}`,
    crm: "present",
    service: "absent",
  }));
  const text = renderVerdict({ ...verdict, differences }, plain);
  expect(text).toMatch(/^NOT EQUAL {2}50 failures\n/);
  expect(text).toContain("C-19:");
  expect(text).not.toContain("C-20:");
  expect(text).toContain("and 30 more");
});
