import { eventOrder } from "../../src/core/event/event-order.ts";
import type { Stores } from "../../src/operate/status/stores.ts";

const HAPPENED = "2026-11-20T09:30:11Z";

/** Holds the termination of a record. */
export async function hold({ staged }: Stores, crmCode: string, subject: string, source: string) {
  const event = { type: "crm.record.deleted", subject, source, id: crmCode };
  await staged.stage({
    crmCode,
    eventKey: crmCode,
    order: eventOrder({ time: HAPPENED }, 1),
    payload: undefined,
    fingerprint: undefined,
    variant: undefined,
    status: "terminated",
    lane: "bulk",
    time: Date.parse(HAPPENED),
    event: JSON.stringify(event),
  });
  const taken = await staged.take(crmCode, "test", 60_000);
  if (taken.kind !== "taken") throw new Error("it is not staged");
  await staged.settle(taken.state, { row: "before", finished: false, held: { why: "limit" } });
}
