/** Makes the steps of a record's history from what THE PATH decides. Names of fields only. Pure. */
import type { CrmEvent } from "../event/crm-event.ts";
import type { DeadReason } from "./dead-letter.ts";
import { problemFields } from "./problem-fields.ts";
import type { Problem } from "../event/problem.ts";
import type { RunEnd } from "./run-end.ts";
import {
  KEPT,
  type NotedEvent,
  type NotedProblems,
  type NotedRequest,
  type RunStep,
} from "./step.ts";

type NamedEvent = Pick<CrmEvent, "source" | "id"> & { type: string; time?: string | undefined };

interface About {
  /** The event's own, or that of a record that was merged into it. */
  readonly subject: string;
  readonly warnings?: readonly { readonly field: string; readonly reason: string }[] | undefined;
  /** Of these fields, those in which the service keeps what it has. */
  readonly notUnderstood?: readonly string[];
  readonly redriven?: boolean;
}

export function notedEvent(
  { source, id, type, time }: NamedEvent,
  { subject, warnings = [], notUnderstood = [], redriven = false }: About,
): NotedEvent {
  const isKept = (field: string) => notUnderstood.includes(field);
  return {
    source,
    id,
    type: type.slice(type.lastIndexOf(".") + 1),
    subject,
    time: time === undefined ? undefined : Date.parse(time),
    // Of a history only the first ones are kept.
    warnings: warnings
      .toSorted((a, b) => Number(isKept(b.field)) - Number(isKept(a.field)))
      .map(({ field, reason }) => `${nameOf(field)}:${reason}${isKept(field) ? KEPT : ""}`),
    redriven,
  };
}

/** As `notedEvent`, for something that is no valid event; undefined when it names no record. */
export function notedText(
  value: unknown,
  { redriven = false }: Pick<About, "redriven">,
): NotedEvent | undefined {
  const given = (typeof value === "object" && value !== null ? value : {}) as Partial<
    Record<"source" | "id" | "type" | "time" | "subject", unknown>
  >;
  const text = (part: unknown): string => (typeof part === "string" ? part.toWellFormed() : "");
  const [source, id, type, subject] = [given.source, given.id, given.type, given.subject].map(text);
  if (!subject) return undefined;
  return notedEvent(
    { source: source ?? "", id: id ?? "", type: type ?? "" },
    {
      subject,
      redriven,
    },
  );
}

export const notedProblems = (reason: DeadReason, problems: readonly Problem[]): NotedProblems => ({
  reason,
  fields: problemFields(problems).filter((field) => field !== ""),
  // The service's words, and those of a mapping's own code, may quote a value.
  rule: reason === "invalid" ? problems[0]?.rule : undefined,
});

/** @param request undefined when the run has sent none. */
export function runStep(
  request: NotedRequest | undefined,
  { change, outcome, problems = [], reason }: Omit<RunEnd, "finished">,
): RunStep {
  const isDead = outcome === "rejected" && reason !== undefined;
  return {
    kind: "run",
    request,
    outcome,
    reason,
    problems: isDead ? notedProblems(reason as DeadReason, problems) : undefined,
    ...(change && { change }),
  };
}

/** The name of a field, or `other`: a mapping may name a field in any way. */
const nameOf = (field: string): string =>
  problemFields([{ field, rule: "", kind: "" }])[0] || "other";
