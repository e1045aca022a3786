/** Tells one step of a history in words. No values of a person. Pure. */
import { HELD_BECAUSE, type HeldWhy } from "../../core/sync/record.ts";
import { failedWhens, type FailedWhen, type PresentWhens } from "../../intake/mapping/whens.ts";
import { clockTime } from "../../operate/status/clock-time.ts";
import {
  KEPT,
  type ActStep,
  type EventStep,
  type NotedEvent,
  type RunStep,
  type Step,
} from "../../core/sync/step.ts";
import { ignoredText, keptIn, objectOf, rejectedText } from "./fate.ts";
import { inWords } from "../../core/sync/service-reply.ts";

/** One step, for people and for programs. */
export interface ToldStep {
  /** ISO 8601 in UTC; of a repeated step, the last time. */
  readonly at: string;
  /** How often in a row. */
  readonly times: number;
  readonly kind: Step["kind"];
  /** One sentence. */
  readonly says: string;
  /** Of `event`. */
  readonly event?: {
    readonly source: string;
    readonly id: string;
    readonly subject: string;
    readonly time: string | null;
    readonly result: string;
    readonly warnings: readonly string[];
    /** Of `ignored`: each `when` that has decided it, while the mapping is the same. */
    readonly whens: readonly FailedWhen[];
  };
  /** Of `run` with a request. */
  readonly request?: {
    readonly method: string;
    readonly status: number | null;
    readonly durationMs: number;
  };
  /** Of an update, where they are known: names of the fields that it changed, and of those that it emptied. */
  readonly changed?: readonly string[];
  readonly emptied?: readonly string[];
}

export function tellStep(step: Step, present: PresentWhens): ToldStep {
  const told = { at: new Date(step.at).toISOString(), times: step.times, kind: step.kind };
  const often = step.times > 1 ? `${step.times} times: ` : "";
  switch (step.kind) {
    case "event": {
      const { id, source, subject, time, warnings } = step.event;
      return {
        ...told,
        says: often + eventText(step, present),
        event: {
          source,
          id,
          subject,
          time: time === undefined ? null : new Date(time).toISOString(),
          result: step.result,
          warnings,
          whens: failedWhens(step, objectOf(step), present) ?? [],
        },
      };
    }
    case "run": {
      const says = often + runText(step);
      if (step.request === undefined) return { ...told, says };
      const { durationMs, method, status } = step.request;
      const request = { method, status: status ?? null, durationMs };
      return { ...told, says, request, ...step.change };
    }
    case "dead":
      return { ...told, says: `${often}became a dead letter: ${rejectedText(step)}` };
    case "act":
      return { ...told, says: often + actText(step) };
  }
}

/** "anna released its held change, approved by ben". */
function actText({ act, approvedBy, by = "a person" }: ActStep): string {
  const did = ACTS[act] ?? `did ${act}`;
  return `${by} ${did}${approvedBy === undefined ? "" : `, approved by ${approvedBy}`}`;
}

const ACTS: Readonly<Record<string, string>> = {
  "dead.redrive": "redrove its dead letter",
  "dead.drop": "dropped its dead letter",
  "bulk.cancel": "dropped its change, with the others that waited in the lane bulk",
  "held.release": "released its held change",
  "held.drop": "dropped its held change",
  "ledger.forget": "let the ledger forget what the service has of it",
};

function eventText(step: EventStep, present: PresentWhens): string {
  const { event } = step;
  const came = `${event.redriven ? "redriven: " : ""}event ${event.type} of ${event.subject}${timeText(event)}, from ${event.source}, id ${event.id}`;
  const kept = keptIn(step).map(
    ({ fields, why }) => `; ${fields.join(", ")} kept as the service has it: ${why}`,
  );
  const others = event.warnings.filter((text) => !text.endsWith(KEPT));
  const warned = others.length === 0 ? "" : `; left out or changed: ${others.join(", ")}`;
  const reused = step.reused === true ? "; another event had the same source and id before" : "";
  return `${came}: ${resultText(step, present)}${kept.join("")}${warned}${reused}`;
}

const timeText = ({ time }: NotedEvent): string =>
  time === undefined ? "" : `, changed at ${clockTime(time)}`;

function resultText(step: EventStep, present: PresentWhens): string {
  const replaced = step.coalesced ? ", in place of an older change that waited" : "";
  const left =
    step.ignored === undefined ? "" : `; the record left its rule: ${ignoredText(step, present)}`;
  switch (step.result) {
    case "staged":
      return `accepted, waits to be sent${replaced}${left}`;
    case "held":
      return "accepted, held for a person";
    case "unchanged":
      return `unchanged: the service has this already${replaced}`;
    case "nothing_to_terminate":
      return `nothing to terminate: the service does not have it, or it is terminated${replaced}`;
    case "superseded":
      return "superseded: a newer event of the record had come before";
    case "rejected":
      return `rejected: ${rejectedText(step)}`;
    case "ignored":
      return `ignored: ${ignoredText(step, present)}`;
    case "fetching":
      return "the record must be fetched from the CRM";
    case "missing":
      return "changed nothing: the CRM says that it has no such record";
  }
}

function runText({ change, outcome, problems, reason, request }: RunStep): string {
  const status = request?.status === undefined ? "no answer" : String(request.status);
  const sent =
    request === undefined
      ? "no request"
      : `${request.method} ${status} in ${Math.round(request.durationMs)} ms`;
  return `${sent}: ${endText(outcome, reason, problems, request?.method === "GET")}${changeText(change)}`;
}

/** Most fields that one sentence names as changed, or as emptied. */
const MOST_FIELDS = 6;

/** Which fields were changed and emptied: `: city changed; email, phoneNumber emptied`. */
function changeText(change: RunStep["change"]): string {
  const { changed = [], emptied = [] } = change ?? {};
  const others = changed.filter((field) => !emptied.includes(field));
  const parts = [named(others, "changed"), named(emptied, "emptied")].filter((text) => text !== "");
  return parts.length === 0 ? "" : `: ${parts.join("; ")}`;
}

function named(fields: readonly string[], what: string): string {
  const more = fields.length - MOST_FIELDS;
  const names = fields.slice(0, MOST_FIELDS).join(", ");
  return fields.length === 0 ? "" : `${names}${more > 0 ? ` and ${more} more` : ""} ${what}`;
}

function endText(
  outcome: RunStep["outcome"],
  reason: string | undefined,
  problems: RunStep["problems"],
  isRead: boolean,
): string {
  switch (outcome) {
    case "created":
    case "updated":
      return isRead
        ? `${outcome}: the service has it, as it was read`
        : `${outcome}, confirmed by its answer`;
    case "skipped":
      return reason === "nothing_to_terminate" ? "nothing to terminate" : "unchanged, not sent";
    case "rejected":
      return `rejected: ${rejectedText({ problems })}`;
    case "held":
      return `held for a person: ${HELD_BECAUSE[reason as HeldWhy] ?? HELD_BECAUSE.limit}`;
    case "throttled":
      return "the service asked us to wait (429); it is sent again afterwards";
    case "denied":
      return "the service denied access; it is sent again afterwards";
    case "unavailable":
      return (
        NOT_SENT[reason ?? ""] ??
        `no usable reply (${inWords(reason ?? "no reason given")}); it is tried again`
      );
    case undefined:
      return AGAIN[reason ?? ""] ?? `it runs again (${reason ?? "no reason given"})`;
  }
}

const NOT_SENT: Readonly<Record<string, string>> = {
  stale_permit: "its permit became too old before it could be used; it goes first with another one",
  slept: "its process stood still before it could send; it goes first afterwards",
};

/** Replies that are followed by another request of the same record. */
const AGAIN: Readonly<Record<string, string>> = {
  accepted: "accepted without proof; it is read next",
  fetched: "read, to be sent with its new status next",
  exists: "it exists already; it is updated next",
  missing: "it does not exist; it is created next",
  missing_once: "a relation that was known is missing; it is asked again",
  other_variant: "rejected, maybe because it is of the other variant; it is read next",
};
