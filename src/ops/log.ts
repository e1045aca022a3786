import { pino } from "pino";
import type { LogEvent } from "./log-events.ts";

type Write = (fields: object, event: LogEvent) => void;

/** Writes one line per call: the event's name and its fields (only those of the allow-list below). */
export interface Logger {
  level: string;
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
  readonly fatal: Write;
}

/**
 * The only fields that a line may carry: none of them can hold what a record, an event or a token
 * says. What is not listed is left out.
 */
const FIELDS: ReadonlySet<string> = new Set(
  (
    "address backoff_ms crm denied dir err fields for_hours for_ms freshness_s gaps held lane " +
    "level_now mapping outcome pacing port reason record records relations reply requests roles " +
    "rows server_pid source step token_file tries unexplained until url wait_asked_ms webhook why"
  ).split(" "),
);

/** JSON lines on stderr; stdout is for what a command was asked for. */
export function createLog(level: string): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { log: allowed },
      // pino would look at the error once more.
      serializers: { err: (fields: unknown) => fields },
    },
    pino.destination({ dest: 2, sync: true }),
  );
}

/** Turns to debug at SIGUSR2, and back at the next one. */
export function changeLevelOnSignal(log: Logger): void {
  const usual = log.level;
  process.on("SIGUSR2", () => {
    log.level = log.level === usual ? "debug" : usual;
    log[log.level === "debug" ? "debug" : "info"]({ level_now: log.level }, "log.level_changed");
  });
}

function allowed(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => {
      if (value instanceof Error) return name === "err" ? [[name, errorFields(value)]] : [];
      return FIELDS.has(name) ? [[name, value]] : [];
    }),
  );
}

/**
 * What of an error may be told. Its other properties may hold anything: those of a failed Redis
 * command hold its arguments, which are payloads.
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
  // A parser quotes the text that it could not read, and Redis the command that it did not know.
  if (error instanceof SyntaxError) return "a text could not be parsed";
  return error.message.replace(/,? with args.*$/s, "");
}

/**
 * Passes on at most one line per `everyMs` for each key, with how many were held back: a lost
 * connection must not fill a disk.
 */
export function createThrottle(everyMs: number, now: () => number = Date.now) {
  const last = new Map<string, { at: number; held: number }>();
  return (key: string, write: (held: number) => void): void => {
    const entry = last.get(key) ?? { at: Number.NEGATIVE_INFINITY, held: 0 };
    if (now() - entry.at < everyMs) {
      entry.held += 1;
    } else {
      write(entry.held);
      entry.at = now();
      entry.held = 0;
    }
    last.set(key, entry);
  };
}
