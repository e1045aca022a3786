import { expect, test } from "vitest";
import type { EventContext, Mapping } from "../../../src/intake/mapping/mapping.ts";
import { requireNoSource } from "../../../src/whole/reconcile/plan-record.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";

const event = {
  place: "item 1",
  position: 0,
  hasId: true,
  event: {
    specversion: "1.0",
    id: "1",
    source: "/reconcile",
    type: "crm.record.updated",
    subject: "contact/1",
    time: "2026-11-21T08:00:00Z",
    data: { record: { id: "1" } },
  },
};

const view = (codeOf: (context: EventContext) => string) => {
  const mapping: Mapping = {
    name: "own",
    objects: ["contact"],
    reads: new Set(),
    keeps: {},
    webhooks: [],
    whens: [],
    map: async (context) => ({
      kind: "mapped",
      crmCode: codeOf(context),
      candidate: {},
      warnings: [],
    }),
    close: async () => {},
  };
  return { mapping, lists: new Map(), fingerprintOf, changed: {}, now: Date.now };
};

test("a crmCode that is made from the source of events cannot be compared", async () => {
  const bySource = view(({ recordId, source }) => `${source}/${recordId}`);
  await expect(requireNoSource(event, bySource)).rejects.toThrow("from $event.source");
  // An event of a snapshot has its own source.
  const own = { ...event, event: { ...event.event, source: "/crm/acme" } };
  await requireNoSource(own, bySource);
  await requireNoSource(
    event,
    view(({ recordId }) => recordId),
  );
});
