/**
 * THE PATH, first half: check the envelope, map the record, plan what becomes of it, stage the newest
 * state. A change that cannot continue becomes a dead letter that names the reason.
 */
import type { CrmEvent } from "../event/crm-event.ts";
import { NO_LISTS, type TenantLists } from "../service-spec/tenant-lists.ts";
import { checkEvent, type Arrival, type CheckedRecord, type EventRules } from "./check-event.ts";
import {
  ended,
  fetching,
  reject,
  rejectEnvelope,
  type Accepted,
  type RecordPorts,
} from "./end-record.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import { mapChange, type MapPorts } from "./map-change.ts";
import type { Mapped } from "./mapped.ts";
import { planChange, type Plan } from "./plan-change.ts";
import { stagePlan } from "./stage-plan.ts";
import { isTenantProblem, needsTenantLists } from "./validate.ts";

export interface AcceptPorts {
  readonly rules: EventRules;
  readonly mapping: MapPorts;
  readonly lists: ListPorts;
  readonly fingerprintOf: FingerprintOf;
  readonly records: RecordPorts;
}

/** The values that the tenant allows. */
export interface ListPorts {
  /** Undefined while they are not known; the mapping then leaves out no value for them. */
  known(): TenantLists | undefined;
  /**
   * Asks the service for the lists again, because they refuse a value.
   * @returns whether the event waits for them: false when they were fetched lately.
   */
  askAgain(): Promise<boolean>;
}

/**
 * @param value whatever a sender has added.
 * @returns the event, undefined when its envelope is not valid; and what became of each of its records, those
 *   that were merged into its own first. Throws only what the ports throw.
 */
export async function acceptEvent(
  value: unknown,
  arrival: Arrival,
  ports: AcceptPorts,
): Promise<{ event: CrmEvent | undefined; records: Accepted[] }> {
  const checked = checkEvent(value, arrival, ports.rules);
  if (!checked.ok) {
    const rejected = await rejectEnvelope(value, checked.problems, arrival, ports.records);
    return { event: undefined, records: [rejected] };
  }
  const { event } = checked;
  if (await isRepeated(checked, ports.records)) {
    return { event, records: [ended("duplicate", event.lane)] };
  }
  const records: Accepted[] = [];
  for (const record of checked.records) records.push(await acceptRecord(record, ports));
  return { event, records };
}

async function acceptRecord(record: CheckedRecord, ports: AcceptPorts): Promise<Accepted> {
  const lists = ports.lists.known();
  const mapped = await mapChange(record, lists ?? NO_LISTS, ports.mapping);
  if (mapped.kind === "fetching") {
    const { problem } = mapped;
    if (problem === undefined) return fetching(record, ports.records);
    const notFetched = { reason: "not_fetched", crmCode: undefined, problems: [problem] } as const;
    return reject(record, notFetched, {}, ports.records);
  }
  const plan = planChange(record, mapped, lists ?? NO_LISTS, ports.fingerprintOf);
  if (await waitsForLists(plan, mapped, lists, ports.lists)) {
    return ended("waiting", record.event.lane);
  }
  return stagePlan(record, plan, mapped.kind === "ignored" ? {} : mapped, ports.records);
}

/** Staging recognises a duplicate by itself; merges and fetches do more than that, so they ask first. */
async function isRepeated(
  { records: [first, ...more] }: { readonly records: readonly CheckedRecord[] },
  ports: RecordPorts,
): Promise<boolean> {
  const own = more.at(-1) ?? first;
  if (own === undefined || (more.length === 0 && own.event.data?.fetch === undefined)) return false;
  return (await ports.seenAs(own.key, ports.contentOf(own.event))) === "same";
}

/** Whether only the tenant's lists are in the way of the record, or of one of its values. */
async function waitsForLists(
  plan: Plan,
  mapped: Mapped,
  known: TenantLists | undefined,
  lists: ListPorts,
): Promise<boolean> {
  const { candidate, leftOutByLists } = mapped.kind === "mapped" ? mapped : NOT_MAPPED;
  if (known === undefined) return candidate !== undefined && needsTenantLists(candidate);
  const isRefused =
    plan.kind === "reject"
      ? plan.problems.length > 0 && plan.problems.every(isTenantProblem)
      : plan.kind === "stage" && leftOutByLists !== undefined;
  return isRefused && lists.askAgain();
}

const NOT_MAPPED = { candidate: undefined, leftOutByLists: undefined };
