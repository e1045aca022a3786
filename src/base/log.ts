import { fstatSync } from "node:fs";
import { pino, type DestinationStream } from "pino";
import { systemdVariables } from "./config.ts";
import { sentenceOf, type LogEvent } from "./log-events.ts";

/**
 * The only fields that a log line may carry. None of them can hold the content of a record, an event
 * or a token.
 */
const LOG_FIELDS = `
  added address backoff_ms chore crm delay_ms denied dir err event fields file for_hours for_ms
  freshness_s from gaps head host kind lane level_now mapping meant messages missing node
  ops_url outcome pacing port reason record records relations removed reply requests roles
  rows server_pid source span_id status step step_ms suppressed to token_file trace_id tries
  unexplained until url values variable version wait_asked_ms webhook why
` as const;

type Words<Text extends string> = Text extends `${infer Line}\n${infer Rest}`
  ? Words<Line> | Words<Rest>
  : Text extends `${infer Word} ${infer Rest}`
    ? Word | Words<Rest>
    : Text;

export type LogFields = { readonly [name in Exclude<Words<typeof LOG_FIELDS>, "">]?: unknown };

const KNOWN: ReadonlySet<string> = new Set(LOG_FIELDS.trim().split(/\s+/));

/**
 * Synchronous: what is written just before the process ends must be seen. Stderr may be a file whose disk is
 * full: a line that it does not take is left out, and the work goes on.
 */
export function linesOnStderr(): DestinationStream {
  let stderr = openStderr(reopen);
  const prefix = journalPrefix();
  // After an error the old destination would keep that line, and all later ones, in memory.
  function reopen(): void {
    stderr = openStderr(reopen);
  }
  return { write: (line) => void stderr.write(prefix(line) + line) };
}

/** Priorities of the journal, sd-daemon(3). */
const PRIORITIES: Readonly<Record<string, number>> = {
  fatal: 2,
  error: 3,
  warn: 4,
  info: 6,
  debug: 7,
};

/**
 * What a line for the journal begins with, so that `journalctl -p warning` finds it: the journal takes it off. Elsewhere
 * a JSON line stays one.
 */
function journalPrefix(): (line: string) => string {
  const { JOURNAL_STREAM } = systemdVariables();
  if (JOURNAL_STREAM === undefined) return () => "";
  const { dev, ino } = fstatSync(2, { bigint: true });
  if (JOURNAL_STREAM !== `${dev}:${ino}`) return () => "";
  return (line) => {
    const [, level = ""] = /^\{"level":"(\w+)"/.exec(line) ?? [];
    return level in PRIORITIES ? `<${PRIORITIES[level]}>` : "";
  };
}

const openStderr = (onError: () => void) =>
  pino.destination({ dest: 2, sync: true }).on("error", onError);

type Write = (fields: LogFields, event: LogEvent) => void;

/**
 * Writes one line per call: the event's name (`event`), its sentence (`msg`) and its fields. Fields
 * that are not in the allow-list are left out.
 */
export interface Logger {
  level: string;
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  readonly fatal: Write;
}

export interface LogOptions {
  /** Default: JSON lines on stderr; stdout is for the output of commands. */
  readonly destination?: DestinationStream;
  /** Fields that every line gets from where it is written: the ids of the active span. */
  readonly context?: () => object;
}

export function createLog(level: string, options: LogOptions = {}): Logger {
  const { destination = linesOnStderr(), context = () => ({}) } = options;
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }), log: allowed },
      mixin: context,
      hooks: {
        logMethod(given, write) {
          const [fields, event] = given as unknown as Parameters<Write>;
          write.call(this, { event, ...fields }, sentenceOf(event));
        },
      },
      // allowed() has reduced the error already; pino's own serializer would change it again.
      serializers: { err: (fields: unknown) => fields },
    },
    destination,
  );
}

/** SIGUSR2 sets the level to debug; the next one sets it back. */
export function changeLevelOnSignal(log: Logger): void {
  const usual = log.level;
  process.on("SIGUSR2", () => {
    log.level = log.level === usual ? "debug" : usual;
    log[log.level === "debug" ? "debug" : "info"]({ level_now: log.level }, "log.level_changed");
  });
}

/** The most of a warning that a line says, in characters. */
const WARNING_CHARS = 200;

/** What Node and libraries write on their own becomes lines of the log: a log of JSON has no other lines. */
export function logWarnings(log: Pick<Logger, "warn">): void {
  const warn = (text: string) =>
    log.warn({ reason: text.split("\n", 1)[0]?.slice(0, WARNING_CHARS) }, "node.warned");
  // Node's own listener prints.
  process.removeAllListeners("warning").on("warning", ({ name, message }) => {
    warn(`${name}: ${message}`);
  });
  const print = (...said: readonly unknown[]) => warn(String(said[0]));
  Object.assign(console, { log: print, info: print, warn: print, error: print });
}

function allowed(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => {
      if (value instanceof Error) return name === "err" ? [[name, errorFields(value)]] : [];
      return KNOWN.has(name) ? [[name, value]] : [];
    }),
  );
}

/**
 * The parts of an error that may be logged. Other properties may hold anything: those of a failed
 * Redis command hold its arguments, which are payloads.
 */
function errorFields(error: Error): Record<string, unknown> {
  const { code } = error as { code?: unknown };
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return {
    type: error.name,
    message: messageOf(error),
    ...(typeof code === "string" && { code }),
    stack: frames.slice(0, 10).map((line) => line.trim()),
    ...(error.cause instanceof Error && { cause: messageOf(error.cause) }),
  };
}

function messageOf(error: Error): string {
  // A parser quotes the text that it cannot parse, and Redis quotes an unknown command.
  if (error instanceof SyntaxError) return "a text could not be parsed";
  return error.message.replace(/,? with args.*$/s, "");
}

/** @param about tells lines of one event apart: each counts by itself. */
type WriteRarely = (fields: LogFields, event: LogEvent, about?: string) => void;

export type RareLog = Readonly<Record<"info" | "warn" | "error", WriteRarely>>;

/**
 * Writes at most one line per `everyMs` of each event, so that a lost connection cannot fill a disk.
 * The next line says how many were left out (`suppressed`).
 */
export function createRareLog(log: Logger, everyMs: number): RareLog {
  const last = new Map<string, { at: number; suppressed: number }>();
  const rarely =
    (level: keyof RareLog): WriteRarely =>
    (fields, event, about = "") => {
      const key = `${event} ${about}`;
      const { at, suppressed } = last.get(key) ?? { at: Number.NEGATIVE_INFINITY, suppressed: 0 };
      const now = performance.now();
      if (now - at < everyMs) last.set(key, { at, suppressed: suppressed + 1 });
      else {
        log[level]({ ...fields, suppressed }, event);
        last.set(key, { at: now, suppressed: 0 });
      }
    };
  return { info: rarely("info"), warn: rarely("warn"), error: rarely("error") };
}
