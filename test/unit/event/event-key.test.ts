import { expect, test } from "vitest";
import { contentHashWith } from "../../../src/core/event/event-order.ts";

const EVENT = {
  specversion: "1.0",
  id: "1",
  source: "/crm",
  type: "crm.record.updated",
  subject: "contact/1",
  time: "2026-11-20T09:30:11Z",
  data: { record: { name: "Ada", list: [1, 2] } },
};
const contentOf = contentHashWith(undefined);

test.for([
  { data: { record: { list: [1, 2], name: "Ada" } } },
  { specversion: "1.0", lane: "live", sequence: null },
])("a second delivery has the same hash: %o", (more) => {
  expect(contentOf({ ...EVENT, ...more })).toBe(contentOf(EVENT));
});

test.for([
  { time: "2026-11-20T09:30:12Z" },
  { type: "crm.record.deleted" },
  { subject: "contact/2" },
  { sequence: "2" },
  { data: { record: { name: "Ada", list: [2, 1] } } },
  { data: null },
])("another change has another hash: %o", (more) => {
  expect(contentOf({ ...EVENT, ...more })).not.toBe(contentOf(EVENT));
});

test("without its key, a hash cannot be made", () => {
  expect(contentHashWith(Buffer.alloc(32, 1))(EVENT)).not.toBe(contentOf(EVENT));
});
