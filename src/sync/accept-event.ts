/**
 * The first half of a change's way: check the envelope, map the record, validate the payload,
 * stage the newest state. What cannot go on becomes a dead letter, named and kept.
 */
import { parseEvent, type CrmEvent } from "../event/crm-event.ts";
import { eventKey } from "../event/event-key.ts";
import { eventOrder, normalTime } from "../event/event-order.ts";
import { variantOf } from "../service-spec/business-relation.ts";
import type { Lane } from "./lane.ts";
import type { Problem } from "./problem.ts";
import type { TenantLists } from "../service-spec/tenant-lists.ts";
import { deadIdOf, deadIdOfEvent, type DeadLetter, type DeadReason } from "./dead-letter.ts";
import { bodyOf } from "./decide.ts";
import { fingerprintOf } from "./fingerprint.ts";
import type { StageResult, StateToStage } from "./staged-state.ts";
import { validatePayload } from "./validate.ts";

/** What a mapping makes of one record of an event. */
export type Mapped =
  | {
      readonly kind: "mapped";
      readonly crmCode: string;
      /** Absent when the event brought no record. */
      readonly candidate: Readonly<Record<string, unknown>> | undefined;
    }
  /** None of the service's business. */
  | { readonly kind: "ignored" }
  | {
      readonly kind: "unmappable";
      readonly crmCode: string | undefined;
      readonly problems: readonly Problem[];
    };

export interface AcceptPorts {
  /** @param subject whose record: the event's own, or one that was merged into it. */
  map(event: CrmEvent, subject: string): Promise<Mapped>;
  /**
   * Has the event's record fetched from the CRM; it comes back as an event of its own.
   * @returns why it cannot be, undefined when it will.
   */
  fetch(event: CrmEvent, crm: string, order: string): Promise<Problem | undefined>;
  lists(): TenantLists;
  isSeen(eventKey: string): Promise<boolean>;
  stage(state: StateToStage, deadId: string): Promise<StageResult>;
  /** Keeps a letter; `superseded` when something newer of that record is known. */
  storeDeadLetter(letter: DeadLetter): Promise<"stored" | "superseded">;
}

/** How an event arrived. */
export interface Arrival {
  /** When it was received, ms; stands in for a `time` that the event lacks. */
  readonly at: number;
  /** Grows with every event received. */
  readonly number: number;
}

/** What became of one record of an event. */
export interface Accepted {
  readonly result: StageResult["result"] | "rejected" | "ignored" | "fetching";
  readonly crmCode: string | undefined;
  readonly lane: Lane;
  readonly coalesced: boolean;
  readonly expedite: boolean;
  readonly reason?: DeadReason;
  readonly problems?: readonly Problem[];
}

export async function acceptEvent(
  value: unknown,
  arrival: Arrival,
  ports: AcceptPorts,
): Promise<{ event: CrmEvent | undefined; records: Accepted[] }> {
  const parsed = parseEvent(value, arrival.at);
  if (!parsed.ok) {
    return {
      event: undefined,
      records: [await buryEnvelope(value, parsed.problems, arrival, ports)],
    };
  }
  const { event } = parsed;
  const key = eventKey(event);
  // Staging tells a duplicate by itself; what takes more than that step asks before.
  const { merged, fetch } = event.data ?? {};
  if ((merged !== undefined || fetch !== undefined) && (await ports.isSeen(key))) {
    return { event, records: [ended("duplicate", event.lane)] };
  }

  // Losers of a merge first: the event counts as seen once its own record is staged.
  const records: Accepted[] = [];
  for (const loser of merged ?? []) {
    records.push(await acceptRecord(event, loser, "", arrival, ports));
  }
  records.push(await acceptRecord(event, event.subject, key, arrival, ports));
  return { event, records };
}

async function acceptRecord(
  event: CrmEvent,
  subject: string,
  key: string,
  arrival: Arrival,
  ports: AcceptPorts,
): Promise<Accepted> {
  const time = event.time ?? new Date(arrival.at).toISOString();
  const order = eventOrder({ time, sequence: event.sequence }, arrival.number);
  const serialised = JSON.stringify(event);
  const bury = async (
    reason: DeadReason,
    crmCode: string | undefined,
    problems: readonly Problem[],
  ) => {
    if (await ports.isSeen(eventKey(event))) return ended("duplicate", event.lane);
    const id = crmCode === undefined ? deadIdOfEvent(eventKey(event)) : deadIdOf(crmCode);
    const end = await ports.storeDeadLetter({
      id,
      reason,
      problems,
      crmCode,
      order,
      event: serialised,
      source: event.source,
      at: arrival.at,
    });
    return end === "superseded"
      ? { ...ended("superseded", event.lane), crmCode }
      : { ...ended("rejected", event.lane), crmCode, reason, problems };
  };

  const crm = event.data?.fetch;
  if (crm !== undefined && event.data?.record === undefined && subject === event.subject) {
    const problem = await ports.fetch(event, crm, order);
    return problem === undefined
      ? ended("fetching", event.lane)
      : bury("not_fetched", undefined, [problem]);
  }
  const mapped = await ports.map(event, subject);
  if (mapped.kind === "ignored") return ended("ignored", event.lane);
  const { crmCode } = mapped;
  const isMapped = mapped.kind === "mapped";
  const deleted = event.type === "crm.record.deleted" || subject !== event.subject;
  if (crmCode === undefined || (!isMapped && !deleted)) {
    return bury("unmappable", crmCode, isMapped ? [] : mapped.problems);
  }
  const candidate = isMapped ? mapped.candidate : undefined;
  const validated = candidate && validatePayload(candidate, ports.lists());
  // What is deleted may be as wrong as it likes: the service's own fields do to terminate it.
  if (validated?.ok === false && !deleted) return bury("invalid", crmCode, validated.problems);

  const payload = validated?.ok === true ? validated.payload : undefined;
  const status = deleted
    ? "terminated"
    : event.type === "crm.record.restored" && payload === undefined
      ? "active"
      : "mapped";
  const state: StateToStage = {
    crmCode,
    eventKey: key,
    order,
    status,
    payload: payload && JSON.stringify(payload),
    fingerprint: payload && fingerprintOf(bodyOf(payload, status)),
    variant: payload && variantOf(payload.type),
    lane: event.lane,
    time: Date.parse(normalTime(time) ?? ""),
    event: serialised,
  };
  const staged = await ports.stage(state, deadIdOf(crmCode));
  return { ...staged, crmCode, lane: event.lane };
}

async function buryEnvelope(
  value: unknown,
  problems: readonly Problem[],
  arrival: Arrival,
  ports: AcceptPorts,
): Promise<Accepted> {
  const { source, id } = (typeof value === "object" && value !== null ? value : {}) as {
    source?: unknown;
    id?: unknown;
  };
  const known = typeof source === "string" && typeof id === "string";
  const key = known ? eventKey({ source, id }) : `arrival-${arrival.number}`;
  await ports.storeDeadLetter({
    id: deadIdOfEvent(key),
    reason: "bad_event",
    problems,
    event: serialise(value),
    source: typeof source === "string" ? source : undefined,
    crmCode: undefined,
    order: undefined,
    at: arrival.at,
  });
  return { ...ended("rejected", "live"), reason: "bad_event", problems };
}

/** What is nested too deep to be written is not kept: there is no use in reading it either. */
function serialise(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}

const ended = (result: Accepted["result"], lane: Lane): Accepted => ({
  result,
  lane,
  crmCode: undefined,
  coalesced: false,
  expedite: false,
});
