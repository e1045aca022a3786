import { pino, type Logger } from "pino";

export type { Logger };

/**
 * JSON lines on stderr (stdout is for what a command was asked for). Lines carry only fields
 * that a caller named one by one; the redaction is the last net, not the method.
 */
export function createLog(level: string): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: ["token", "*.token", "authorization", "*.authorization", "payload", "*.payload"],
      },
      serializers: { err: pino.stdSerializers.err },
    },
    pino.destination({ dest: 2, sync: true }),
  );
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
