/**
 * How steps are written in Redis: short codes, because twenty of them have to fit into a kilobyte.
 * lua/note-step.lua has the form of a line. What an older or newer release wrote, and this one does not
 * know, is left out when it is read.
 */
import { cut } from "../service-spec/characters.ts";
import type { DeadReason } from "../sync/dead-letter.ts";
import { fieldsOfLetters, lettersOf } from "../sync/emptied.ts";
import type { IgnoreReason } from "../sync/mapped.ts";
import type { Outcome } from "../sync/outcomes.ts";
import type {
  ActStep,
  DeadStep,
  EventResult,
  EventStep,
  NewStep,
  NotedEvent,
  NotedProblems,
  RunStep,
  Step,
} from "../sync/step.ts";

/** The code of each result. */
const RESULT_CODES: Readonly<Record<EventResult, string>> = {
  staged: "s",
  held: "h",
  unchanged: "u",
  nothing_to_terminate: "n",
  superseded: "o",
  rejected: "x",
  ignored: "i",
  fetching: "f",
  missing: "m",
};
const RESULTS = new Map(
  Object.entries(RESULT_CODES).map(([result, code]) => [code, result as EventResult]),
);

const METHODS: Readonly<Record<string, string>> = { POST: "P", PUT: "U", GET: "G" };
const METHOD_NAMES = new Map(Object.entries(METHODS).map(([name, code]) => [code, name]));

/** Longest texts of others that are kept, in UTF-16 units. */
const ID_MAX = 40;
const SOURCE_MAX = 64;
const RULE_MAX = 80;

/** As long as an event may have it: `crmsync forget` finds the record by it. */
const SUBJECT_MAX = 512;

/** Most names of fields in one step. */
const NAMES_MAX = 4;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** One line without its time: what a script appends. */
export interface StepLine {
  /** `O<source>\t<subject>`; "" for what is no event. */
  readonly origin: string;
  readonly kind: string;
  readonly extra: string;
  readonly body: string;
}

export function lineOf(step: NewStep): StepLine {
  const none = { origin: "", extra: "" };
  switch (step.kind) {
    case "event":
      return {
        ...none,
        origin: originOf(step.event),
        kind: "E",
        body: `${RESULT_CODES[step.result]}${step.coalesced ? "c" : ""}${step.reused ? "d" : ""}${eventTail(step)}`,
      };
    case "run": {
      const { change, request, outcome, reason, problems } = step;
      const how = request === undefined ? "-" : (METHODS[request.method] ?? "?");
      return {
        ...none,
        kind: "R",
        ...(request && { extra: Math.round(request.durationMs).toString(36) }),
        body: join([
          `${how}${request?.status ?? ""}`,
          outcome,
          problems === undefined ? reason : "",
          ...problemParts(problems),
          change && [lettersOf(change.changed), lettersOf(change.emptied)].join("-"),
        ]),
      };
    }
    case "dead":
      return { ...none, kind: "D", body: join(problemParts(step.problems)) };
    case "act": {
      const parts = [step.act, step.by, step.approvedBy];
      return { ...none, kind: "A", body: join(parts.map((text = "") => oneLine(text, ID_MAX))) };
    }
  }
}

const originOf = ({ source, subject }: NotedEvent): string =>
  `O${oneLine(source, SOURCE_MAX)}\t${oneLine(subject, SUBJECT_MAX)}`;

/** All of an event's body after its result. */
function eventTail({ event, ignored, problems, whens }: EventStep): string {
  const { id, redriven, time, type, warnings } = event;
  return join([
    redriven ? "r" : "",
    shortId(id),
    type.charAt(0),
    time === undefined || Number.isNaN(time) ? "" : time.toString(36),
    warnings.slice(0, NAMES_MAX).join(","),
    ignored,
    ...problemParts(problems),
    whens,
  ]);
}

const problemParts = (problems: NotedProblems | undefined): string[] => [
  problems?.reason ?? "",
  (problems?.fields ?? []).slice(0, NAMES_MAX).join(","),
  oneLine(problems?.rule ?? "", RULE_MAX),
];

/** Without empty parts at the end. */
const join = (parts: readonly (string | undefined)[]): string =>
  parts.join("\t").replace(/\t+$/, "");

/** Texts of others may hold anything. */
const oneLine = (text: string, max: number): string => {
  const line = text.replace(/\p{Cc}/gu, " ");
  return line.length <= max ? line : `${cut(line, max - 1)}…`;
};

/** A UUID in 22 characters. */
function shortId(id: string): string {
  if (!UUID.test(id)) return oneLine(id, ID_MAX);
  return `~${Buffer.from(id.replaceAll("-", ""), "hex").toString("base64url")}`;
}

function longId(text: string): string {
  if (!/^~[\w-]{22}$/.test(text)) return text;
  const hex = Buffer.from(text.slice(1), "base64url").toString("hex");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** The steps of one history, oldest first. */
export function readSteps(text: string): Step[] {
  const steps: Step[] = [];
  let origin: [source: string, subject: string] = ["", ""];
  for (const line of text.split("\n")) {
    if (line.startsWith("O")) {
      const [source = "", subject = ""] = line.slice(1).split("\t");
      origin = [source, subject];
      continue;
    }
    const [, kind = "", at = "", times = "1", extra = "", body = ""] =
      /^([A-Z])([0-9a-f]+)(?:\*(\d+))?(?:,([^\t]*))?\t(.*)$/s.exec(line) ?? [];
    const step = readBody(kind, extra, body.split("\t"), origin);
    if (step !== undefined) steps.push({ ...step, at: parseInt(at, 16), times: Number(times) });
  }
  return steps;
}

function readBody(
  kind: string,
  extra: string,
  parts: readonly string[],
  origin: readonly [string, string],
): NewStep | undefined {
  switch (kind) {
    case "E":
      return readEvent(parts, origin);
    case "R":
      return readRun(extra, parts);
    case "D": {
      const problems = readProblems(parts);
      return problems && ({ kind: "dead", problems } satisfies DeadStep);
    }
    case "A":
      return {
        kind: "act",
        act: parts[0] ?? "",
        ...(parts[1] && { by: parts[1] }),
        ...(parts[2] && { approvedBy: parts[2] }),
      } satisfies ActStep;
    default:
      return undefined;
  }
}

const TYPES: Readonly<Record<string, string>> = {
  c: "created",
  u: "updated",
  d: "deleted",
  r: "restored",
  m: "merged",
};

function readEvent(
  [
    result = "",
    id = "",
    type = "",
    time = "",
    warnings = "",
    ignored = "",
    reason = "",
    fields = "",
    rule = "",
    whens,
  ]: readonly string[],
  [source, subject]: readonly [string, string],
): EventStep | undefined {
  const known = RESULTS.get(result.charAt(0));
  if (known === undefined) return undefined;
  return {
    kind: "event",
    event: {
      source,
      subject,
      id: longId(id),
      type: TYPES[type] ?? "changed",
      time: time === "" ? undefined : parseInt(time, 36),
      warnings: warnings === "" ? [] : warnings.split(","),
      redriven: result.includes("r", 1),
    },
    result: known,
    coalesced: result.includes("c", 1),
    ...(result.includes("d", 1) && { reused: true }),
    ignored: ignored === "" ? undefined : (ignored as IgnoreReason),
    whens,
    problems: readProblems([reason, fields, rule]),
  };
}

function readRun(
  extra: string,
  [how = "", outcome = "", reason = "", ...rest]: readonly string[],
): RunStep {
  const method = METHOD_NAMES.get(how.charAt(0));
  const [changed, emptied = ""] = rest[3]?.split("-") ?? [];
  return {
    kind: "run",
    request:
      method === undefined
        ? undefined
        : {
            method,
            status: how.length > 1 ? Number(how.slice(1)) : undefined,
            durationMs: parseInt(extra, 36) || 0,
          },
    outcome: outcome === "" ? undefined : (outcome as Outcome),
    reason: reason === "" ? undefined : reason,
    problems: readProblems(rest),
    ...(changed !== undefined && {
      change: { changed: fieldsOfLetters(changed), emptied: fieldsOfLetters(emptied) },
    }),
  };
}

function readProblems([reason = "", fields = "", rule = ""]: readonly string[]):
  | NotedProblems
  | undefined {
  if (reason === "") return undefined;
  return {
    reason: reason as DeadReason,
    fields: fields === "" ? [] : fields.split(","),
    rule: rule === "" ? undefined : rule,
  };
}
