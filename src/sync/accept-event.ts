/**
 * THE PATH, first half: check the envelope, map the record, validate the payload, stage the newest
 * state. A change that cannot continue becomes a dead letter that names the reason.
 */
import { parseEvent, type CrmEvent, type IdRule } from "../event/crm-event.ts";
import {
  eventKey,
  type ContentHash,
  believableTime,
  eventOrder,
  normalTime,
} from "../event/event-order.ts";
import { asDeletion, type GoneRule, type GoneUnclear } from "../event/gone.ts";
import { NO_LISTS, type TenantLists } from "../service-spec/tenant-lists.ts";
import {
  createDeadLetter,
  type DeadLetter,
  type DeadReason,
  type NewestEvent,
} from "./dead-letter.ts";
import type { FingerprintOf } from "./fingerprint.ts";
import type { Lane } from "../event/lane.ts";
import type { Without } from "./ledger-row.ts";
import type { IgnoreReason, Mapped } from "./mapped.ts";
import {
  crmToFetchFrom,
  hasRule,
  isGuessed,
  planChange,
  statusOf,
  withKnownCode,
  type Plan,
  type RecordChange,
} from "./plan-change.ts";
import type { Problem } from "../event/problem.ts";
import { notedEvent, notedProblems, notedText, type EventStep, type NotedEvent } from "./step.ts";
import { writerOf, type SeenAs, type StageResult, type StateToStage } from "./record.ts";
import { isTenantProblem, needsTenantLists } from "./validate.ts";

export interface AcceptPorts {
  /** Redis' time, ms: an event dated more than a day later is not believed. */
  now(): number;
  readonly fingerprintOf: FingerprintOf;
  readonly contentOf: ContentHash;
  /** @param subject whose record: the event's own, or one that was merged into it. */
  map(event: CrmEvent, subject: string): Promise<Mapped>;
  /** Objects of the CRM that the mapping has rules for; empty when it does not know. */
  objects(): readonly string[];
  /** How the mapping's records say that they are deleted. */
  gone?(): readonly GoneRule[] | undefined;
  /** Ids that the mapping allows instead of ordinary ones. */
  ids?(): readonly IdRule[] | undefined;
  /** An event whose record is to be fetched, with its ids as the CRM writes them. */
  withOwnIds(event: CrmEvent): CrmEvent;
  /**
   * Requests the event's record from the CRM; it returns as an event of its own.
   * @returns why it cannot be fetched; undefined when it will be.
   */
  fetch(event: CrmEvent, crm: string, order: string): Promise<Problem | undefined>;
  /**
   * Lets the records be read again to which the event's record belongs (`of` in the mapping).
   * @returns undefined where it belongs to none; `problem`: why they cannot be read.
   */
  requestOwners?(
    event: CrmEvent,
    order: string,
  ): Promise<{ readonly problem: Problem | undefined } | undefined>;
  /**
   * Lets a record be read whose webhook says no time, if its CRM is pulled, too: its state may be older than what was read.
   * @returns false for other events, and where it cannot be read.
   */
  readUndated?(event: CrmEvent, order: string): Promise<boolean>;
  /** Undefined while the tenant's lists are not known; `map` then leaves out no value for them. */
  lists(): TenantLists | undefined;
  /**
   * Asks the service for the lists again, because they refuse a value.
   * @returns whether the event waits for them: false when they were fetched lately.
   */
  askListsAgain(): Promise<boolean>;
  seenAs(eventKey: string, content: string): Promise<SeenAs>;
  /** The crmCode to which this record of the CRM led before; undefined where its own id says it, or nothing is known. */
  codeOf(subject: string): Promise<string | undefined>;
  stage(state: StateToStage): Promise<StageResult>;
  /** Stores a dead letter; `superseded` when something newer of that record is known. */
  storeDeadLetter(letter: DeadLetter): Promise<"stored" | "superseded">;
  /**
   * Drops the dead letter of a record that is ignored by now, unless it is newer than this order.
   * @returns whether there was one.
   */
  dropDeadLetter(crmCode: string, order: string): Promise<boolean>;
  /** Adds a step to the history of the record that an event is about; staging does so by itself. */
  note(step: EventStep, crmCode: string | undefined): void;
}

/** Of a trial: nothing is fetched, asked for, noted or stored but what the caller stages, and no event was seen before. */
export const TRIAL_PORTS = {
  withOwnIds: (event: CrmEvent) => event,
  fetch: async () => undefined,
  askListsAgain: async () => false,
  contentOf: () => "",
  seenAs: async () => undefined,
  storeDeadLetter: async () => "stored",
  dropDeadLetter: async () => false,
  note() {},
} as const satisfies Partial<AcceptPorts>;

/** How an event arrived. */
export interface Arrival {
  /** When it arrived by the clock of Redis, ms: its order is never later than that. */
  readonly at: number;
  /** When its sender says that it was sent, ms; stands in for a `time` that the event lacks. */
  readonly sentAt?: number;
  /** Grows with every event received. */
  readonly number: number;
  /** A pull has read the record. */
  readonly isRead?: boolean;
  /** Of a redriven event: the order that it had when it came, and the present time, ms. */
  readonly order?: string | undefined;
  readonly redrivenAt?: number;
  /** Of a redriven event: a later one of its own record, which brought no fields. */
  readonly later?: LaterEvent | undefined;
}

export interface LaterEvent extends NewestEvent {
  readonly status: "terminated" | "active";
}

const presentOf = ({ at, redrivenAt }: Arrival): number => redrivenAt ?? at;

/** What became of one record of an event; `waiting`: accept the event again, with the tenant's lists. */
export interface Accepted {
  readonly result: StageResult["result"] | "rejected" | "ignored" | "fetching" | "waiting";
  readonly crmCode: string | undefined;
  readonly lane: Lane;
  readonly coalesced: boolean;
  /** Another event with the same source and id, and other content, came before. */
  readonly reused?: boolean;
  /** Of a superseded event: it says something else than what is known. */
  readonly differs?: boolean;
  readonly reason?: DeadReason;
  readonly problems?: readonly Problem[];
  /** Of a record that is ignored, or whose relation is terminated for that. */
  readonly ignored?: IgnoreReason;
  /** An ignored record had a dead letter, which was dropped. */
  readonly dropped?: boolean;
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
  const parsed = parseEvent(value, ports.now(), ports.ids?.());
  if (!parsed.ok) {
    const records = [await rejectEnvelope(value, parsed.problems, arrival, ports)];
    return { event: undefined, records };
  }
  const own = ports.withOwnIds(parsed.event);
  const { event, unclear } = asDeletion(own, ports.gone?.(), ports.now());
  const key = eventKey(event);
  // Staging recognises a duplicate by itself; merges and fetches do more than that, so they ask first.
  const { merged, fetch } = event.data ?? {};
  const doesMore = merged !== undefined || fetch !== undefined;
  if (doesMore && (await ports.seenAs(key, ports.contentOf(event))) === "same") {
    return { event, records: [ended("duplicate", event.lane)] };
  }

  // The merged records first: the event counts as seen once its own record is staged.
  const records: Accepted[] = [];
  for (const mergedSubject of merged ?? []) {
    records.push(await acceptRecord(event, mergedSubject, "", arrival, ports, unclear));
  }
  records.push(await acceptRecord(event, event.subject, key, arrival, ports, unclear));
  return { event, records };
}

/** One record of an event, with all that later steps need to know of it. */
interface RecordToAccept extends RecordChange {
  readonly event: CrmEvent;
  /** The event's key; "" for a merged record, which is not the last one of its event. */
  readonly key: string;
  readonly time: string;
  readonly order: string;
  readonly arrival: Arrival;
  readonly later: LaterEvent | undefined;
  readonly owner?: string | undefined;
  /** Of its mapping. */
  readonly warnings?: Extract<Mapped, { kind: "mapped" }>["warned"];
  /** Fields in which the service keeps what it has. */
  readonly notUnderstood?: readonly string[];
}

/** @param unclear the field by which the record says, in no known way, whether it is deleted */
async function acceptRecord(
  event: CrmEvent,
  subject: string,
  key: string,
  arrival: Arrival,
  ports: AcceptPorts,
  unclear: GoneUnclear | undefined,
): Promise<Accepted> {
  const time = believableTime(event.time, arrival.sentAt ?? arrival.at, arrival.at);
  const order = arrival.order ?? eventOrder({ ...event, time }, arrival.number);
  const later = subject === event.subject ? arrival.later : undefined;
  const status = later?.status;
  const record: RecordToAccept = { event, subject, key, time, order, arrival, later, status };
  const isOwn = subject === event.subject;
  const owners = isOwn ? await ports.requestOwners?.(event, order) : undefined;
  // A record with a rule is a relation of its own as well.
  if (owners !== undefined && !hasRule(subject, ports.objects())) {
    return fetching(record, owners.problem, ports);
  }
  if (isOwn && (await ports.readUndated?.(event, order)) === true) {
    return fetching(record, undefined, ports);
  }
  const crm = crmToFetchFrom(record, ports.objects());
  if (crm !== undefined) {
    return fetching(record, await ports.fetch(event, crm, order), ports);
  }
  const lists = ports.lists();
  const made = await ports.map(event, subject);
  const mapped = isGuessed(made, hasRecord(record))
    ? withKnownCode(made, await ports.codeOf(subject))
    : made;
  if (unclear !== undefined) {
    const { field, kind, rule } = unclear;
    const { crmCode } = mapped;
    return reject(
      record,
      { reason: "unmappable", crmCode, problems: [{ field, rule, kind }] },
      ports,
    );
  }
  const candidate = mapped.kind === "mapped" ? mapped.candidate : undefined;
  if (lists === undefined && candidate !== undefined && needsTenantLists(candidate)) {
    return ended("waiting", event.lane);
  }
  const plan = planChange(record, mapped, lists ?? NO_LISTS, ports.fingerprintOf);
  if (isRefusedByLists(plan, mapped) && (await ports.askListsAgain())) {
    return ended("waiting", event.lane);
  }
  const warnings = mapped.kind === "mapped" ? mapped.warned : undefined;
  const owner = mapped.kind === "ignored" ? undefined : mapped.owner;
  switch (plan.kind) {
    case "ignore":
      return ignore(record, plan, ports);
    case "reject":
      return reject({ ...record, warnings, owner }, plan, ports);
    case "stage":
      return stage(
        { ...record, warnings, owner, notUnderstood: plan.notUnderstood },
        plan,
        mapped,
        ports,
      );
  }
}

/** @param problem why it is not fetched */
async function fetching(
  record: RecordToAccept,
  problem: Problem | undefined,
  ports: AcceptPorts,
): Promise<Accepted> {
  if (problem !== undefined) {
    return reject(
      record,
      { reason: "not_fetched", crmCode: undefined, problems: [problem] },
      ports,
    );
  }
  note(record, { result: "fetching" }, ports);
  return ended("fetching", record.event.lane);
}

/** Whether only the tenant's lists are in the way of the record, or of one of its values. */
function isRefusedByLists(plan: Plan, mapped: Mapped): boolean {
  if (plan.kind === "reject") {
    return plan.problems.length > 0 && plan.problems.every(isTenantProblem);
  }
  return plan.kind === "stage" && mapped.kind === "mapped" && mapped.leftOutByLists !== undefined;
}

async function stage(
  record: RecordToAccept,
  plan: Extract<Plan, { kind: "stage" }>,
  mapped: Mapped,
  ports: AcceptPorts,
): Promise<Accepted> {
  const { event, key, later, order, time } = record;
  const { kind: _, payload, leaves, whens, ...state } = plan;
  // With `later`, a person redrives two events in one: that goes live, also if the
  // fields came as a bulk change.
  const lane = later === undefined ? event.lane : "live";
  const staged = await ports.stage({
    ...state,
    payload: payload && JSON.stringify(payload),
    eventKey: key,
    content: ports.contentOf(event),
    isRead: record.arrival.isRead,
    order: later?.order ?? order,
    fieldsOrder: later && order,
    without: withoutIn(mapped, record),
    hasUnusedRecord: payload === undefined && hasRecord(record),
    leaves: leaves !== undefined,
    writer: writerOf(record.subject),
    owner: record.owner,
    lane,
    // A dead letter waited for a person: its freshness counts from the redrive.
    time: record.arrival.redrivenAt ?? Date.parse(normalTime(time) ?? ""),
    event: JSON.stringify(event),
    noted: { event: eventOf(record), ignored: leaves, whens },
  });
  const accepted = { ...staged, crmCode: plan.crmCode, lane };
  return leaves === undefined ? accepted : { ...accepted, ignored: leaves };
}

/** What the relation is sent without, and from where it can be read again. */
function withoutIn(mapped: Mapped, { event, subject }: RecordToAccept): Without | undefined {
  const fields = mapped.kind === "mapped" ? mapped.sentWithout : undefined;
  return fields && { fields, source: event.source, subject };
}

/** Nothing is wrong with a record that is ignored: an earlier dead letter of it tells nothing now. */
async function ignore(
  record: RecordToAccept,
  { reason, crmCode, whens }: Extract<Plan, { kind: "ignore" }>,
  ports: AcceptPorts,
): Promise<Accepted> {
  const { event, later, order } = record;
  note(record, { result: "ignored", crmCode, ignored: reason, whens }, ports);
  const dropped =
    crmCode !== undefined && (await ports.dropDeadLetter(crmCode, later?.order ?? order));
  return { ...ended("ignored", event.lane), crmCode, ignored: reason, dropped };
}

const hasRecord = ({ event, subject }: RecordToAccept): boolean =>
  subject === event.subject && event.data?.record !== undefined;

interface Rejection {
  readonly reason: DeadReason;
  readonly crmCode: string | undefined;
  readonly problems: readonly Problem[];
}

async function reject(
  record: RecordToAccept,
  { reason, crmCode, problems }: Rejection,
  ports: AcceptPorts,
): Promise<Accepted> {
  const { event, order, arrival, later, owner, subject } = record;
  const hasFields = hasRecord(record);
  const key = eventKey(event);
  // Staging the event's own record deletes the letter of its event: not that of a merged record.
  const letterKey = subject === event.subject ? key : `${key}|${subject}`;
  const seenAs = await ports.seenAs(key, ports.contentOf(event));
  if (seenAs === "same") return ended("duplicate", event.lane);
  const reused = seenAs === "changed" && { reused: true };
  const stored = await ports.storeDeadLetter(
    createDeadLetter(crmCode === undefined ? { eventKey: letterKey } : { crmCode }, {
      reason,
      problems,
      order,
      hasFields,
      newest: later ?? { order, status: statusOf(record, hasFields) },
      event: JSON.stringify(event),
      subject,
      owner,
      source: event.source,
      at: presentOf(arrival),
    }),
  );
  const why = notedProblems(reason, problems);
  note(
    record,
    { result: stored === "stored" ? "rejected" : stored, ...reused, crmCode, problems: why },
    ports,
  );
  return stored === "superseded"
    ? { ...ended("superseded", event.lane), ...reused, crmCode }
    : { ...ended("rejected", event.lane), ...reused, crmCode, reason, problems };
}

/** As its history names the event of this record. */
const eventOf = ({ event, arrival, ...about }: RecordToAccept): NotedEvent =>
  notedEvent(event, { ...about, redriven: arrival.redrivenAt !== undefined });

function note(
  record: RecordToAccept,
  end: Pick<EventStep, "result"> &
    Partial<Pick<EventStep, "ignored" | "problems" | "reused" | "whens">> & {
      crmCode?: string | undefined;
    },
  ports: AcceptPorts,
): void {
  const { crmCode, ...more } = end;
  const event = eventOf(record);
  ports.note(
    { kind: "event", event, coalesced: false, ignored: undefined, problems: undefined, ...more },
    crmCode,
  );
}

async function rejectEnvelope(
  value: unknown,
  problems: readonly Problem[],
  arrival: Arrival,
  ports: AcceptPorts,
): Promise<Accepted> {
  const event = serialise(value);
  // Jobs with ids of their own share a number: each event that names no source and id has its own letter.
  const unnamed = eventKey({ source: `arrival-${arrival.number}`, id: event });
  const { source, key } = identityOf(value, unnamed);
  const deadLetter = createDeadLetter(
    { eventKey: key },
    {
      reason: "bad_event",
      problems,
      event,
      source,
      at: presentOf(arrival),
      arrival: { at: arrival.at, number: arrival.number },
    },
  );
  await ports.storeDeadLetter(deadLetter);
  const noted = notedText(value, { redriven: arrival.redrivenAt !== undefined });
  if (noted !== undefined) {
    const step = { kind: "event", event: noted, result: "rejected", coalesced: false } as const;
    const why = notedProblems("bad_event", problems);
    ports.note({ ...step, ignored: undefined, problems: why }, undefined);
  }
  return { ...ended("rejected", "live"), reason: "bad_event", problems };
}

/** Source and key of something that may not be an event. */
export function identityOf(
  value: unknown,
  fallbackKey: string,
): { source: string | undefined; key: string } {
  const { source, id } = (typeof value === "object" && value !== null ? value : {}) as {
    source?: unknown;
    id?: unknown;
  };
  const known = typeof source === "string" && typeof id === "string";
  return {
    source: typeof source === "string" ? source.toWellFormed() : undefined,
    key: known ? eventKey({ source, id }) : fallbackKey,
  };
}

/** Values nested too deep for JSON.stringify are not kept: they could not be read either. */
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
});
