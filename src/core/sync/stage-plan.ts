/** The last step of THE PATH's first half carries the plan out: the newest state is staged, a bad one becomes a dead letter. */
import { hasRecord } from "./mapped.ts";
import { normalTime } from "../event/event-order.ts";
import type { CheckedRecord } from "./check-event.ts";
import {
  ignore,
  notedOf,
  reject,
  type About,
  type Accepted,
  type RecordPorts,
} from "./end-record.ts";
import { type Plan } from "./plan-change.ts";
import { writerOf } from "./known.ts";

export async function stagePlan(
  record: CheckedRecord,
  plan: Plan,
  about: About,
  ports: RecordPorts,
): Promise<Accepted> {
  switch (plan.kind) {
    case "ignore":
      return ignore(record, plan, ports);
    case "reject":
      return reject(record, plan, about, ports);
    case "stage":
      return stage(record, plan, about, ports);
  }
}

async function stage(
  record: CheckedRecord,
  plan: Extract<Plan, { kind: "stage" }>,
  about: About,
  ports: RecordPorts,
): Promise<Accepted> {
  const { arrival, event, key, later, order, subject, time } = record;
  const { kind: _, payload, leaves, whens, ...state } = plan;
  // With `later`, a person redrives two events in one: that goes live, also if the
  // fields came as a bulk change.
  const lane = later === undefined ? event.lane : "live";
  const { owner, sentWithout } = about;
  const staged = await ports.stage({
    ...state,
    payload: payload && JSON.stringify(payload),
    eventKey: key,
    content: ports.contentOf(event),
    isRead: arrival.isRead,
    order: later?.order ?? order,
    fieldsOrder: later && order,
    without: sentWithout && { fields: sentWithout, source: event.source, subject },
    hasUnusedRecord: payload === undefined && hasRecord(record),
    leaves: leaves !== undefined,
    writer: writerOf(subject),
    owner,
    lane,
    // A dead letter waited for a person: its freshness counts from the redrive.
    time: arrival.redrivenAt ?? Date.parse(normalTime(time) ?? ""),
    event: JSON.stringify(event),
    noted: { event: notedOf(record, about, plan.notUnderstood), ignored: leaves, whens },
  });
  const accepted = { ...staged, crmCode: plan.crmCode, lane };
  return leaves === undefined ? accepted : { ...accepted, ignored: leaves };
}
