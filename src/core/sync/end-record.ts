/** How a record of an event ends in intake, and all ends but staging: rejected, ignored, to be fetched first. */
import { eventKey, identityOf, type ContentHash } from "../event/event-order.ts";
import type { Lane } from "../event/lane.ts";
import type { Problem } from "../event/problem.ts";
import { presentOf, type Arrival, type CheckedRecord } from "./check-event.ts";
import { createDeadLetter, type DeadLetter, type DeadReason } from "./dead-letter.ts";
import { type IgnoreReason, type Mapped, hasRecord } from "./mapped.ts";
import { statusOf, type Plan } from "./plan-change.ts";
import type { SeenAs } from "./known-event.ts";
import type { StageResult, StateToStage } from "./stage.ts";
import {
  notedEvent,
  notedProblems,
  notedText,
  type EventStep,
  type NotedEvent,
  type NotedProblems,
} from "./step.ts";

/** What is kept of events, and done with their records. */
export interface RecordPorts {
  readonly contentOf: ContentHash;
  seenAs(eventKey: string, content: string): Promise<SeenAs>;
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

/** Of a trial: nothing is noted or stored but what the caller stages, and no event was seen before. */
export const TRIAL_RECORDS: Omit<RecordPorts, "stage"> = {
  contentOf: () => "",
  seenAs: async () => undefined,
  storeDeadLetter: async () => "stored",
  dropDeadLetter: async () => false,
  note() {},
};

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

export const ended = (result: Accepted["result"], lane: Lane): Accepted => ({
  result,
  lane,
  crmCode: undefined,
  coalesced: false,
});

/** What a mapping says of a record beside its fields; nothing of a record that was not mapped. */
export type About = Partial<
  Pick<Extract<Mapped, { kind: "mapped" }>, "owner" | "sentWithout" | "warned">
>;

/** As its history names the event of this record. @param notUnderstood fields in which the service keeps what it has */
export const notedOf = (
  { arrival, event, subject }: CheckedRecord,
  { warned }: About = {},
  notUnderstood: readonly string[] = [],
): NotedEvent =>
  notedEvent(event, {
    subject,
    warnings: warned,
    notUnderstood,
    redriven: arrival.redrivenAt !== undefined,
  });

type End = Pick<EventStep, "result"> &
  Partial<Pick<EventStep, "ignored" | "reused" | "whens">> & {
    readonly problems?: NotedProblems;
  };

const stepOf = (event: NotedEvent, end: End): EventStep => ({
  kind: "event",
  event,
  coalesced: false,
  ignored: undefined,
  problems: undefined,
  ...end,
});

/** The record comes back as an event of its own. */
export function fetching(record: CheckedRecord, ports: RecordPorts): Accepted {
  ports.note(stepOf(notedOf(record), { result: "fetching" }), undefined);
  return ended("fetching", record.event.lane);
}

/** Nothing is wrong with a record that is ignored: an earlier dead letter of it tells nothing now. */
export async function ignore(
  record: CheckedRecord,
  { reason, crmCode, whens }: Extract<Plan, { kind: "ignore" }>,
  ports: RecordPorts,
): Promise<Accepted> {
  const { event, later, order } = record;
  ports.note(stepOf(notedOf(record), { result: "ignored", ignored: reason, whens }), crmCode);
  const dropped =
    crmCode !== undefined && (await ports.dropDeadLetter(crmCode, later?.order ?? order));
  return { ...ended("ignored", event.lane), crmCode, ignored: reason, dropped };
}

export interface Rejection {
  readonly reason: DeadReason;
  readonly crmCode: string | undefined;
  readonly problems: readonly Problem[];
}

export async function reject(
  record: CheckedRecord,
  { reason, crmCode, problems }: Rejection,
  about: About,
  ports: RecordPorts,
): Promise<Accepted> {
  const { arrival, event, later, order, subject } = record;
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
      owner: about.owner,
      source: event.source,
      at: presentOf(arrival),
    }),
  );
  const result = stored === "stored" ? "rejected" : stored;
  const why = { ...reused, problems: notedProblems(reason, problems) };
  ports.note(stepOf(notedOf(record, about), { result, ...why }), crmCode);
  const end = { ...ended(result, event.lane), ...reused, crmCode };
  return result === "rejected" ? { ...end, reason, problems } : end;
}

/** Rejects what is no valid event. */
export async function rejectEnvelope(
  value: unknown,
  problems: readonly Problem[],
  arrival: Arrival,
  ports: RecordPorts,
): Promise<Accepted> {
  const reason = "bad_event" as const;
  const event = serialise(value);
  // Jobs with ids of their own share a number: each event that names no source and id has its own letter.
  const unnamed = eventKey({ source: `arrival-${arrival.number}`, id: event });
  const { source, key } = identityOf(value, unnamed);
  const { at, number } = arrival;
  const letter = {
    reason,
    problems,
    event,
    source,
    at: presentOf(arrival),
    arrival: { at, number },
  };
  await ports.storeDeadLetter(createDeadLetter({ eventKey: key }, letter));
  const noted = notedText(value, { redriven: arrival.redrivenAt !== undefined });
  if (noted !== undefined) {
    const why = notedProblems(reason, problems);
    ports.note(stepOf(noted, { result: "rejected", problems: why }), undefined);
  }
  return { ...ended("rejected", "live"), reason, problems };
}

/** Values nested too deep for JSON.stringify are not kept: they could not be read either. */
function serialise(value: unknown): string {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return "";
  }
}
