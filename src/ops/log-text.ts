/** Log lines for people; loaded only when they are wanted. */
import { pino, type DestinationStream } from "pino";
import { prettyFactory } from "pino-pretty";

/** Synchronous, as the JSON lines are: what is written just before the process ends must be seen. */
export function textOnStderr(): DestinationStream {
  const stderr = pino.destination({ dest: 2, sync: true });
  const format = prettyFactory({
    colorize: process.stderr.isTTY && process.stderr.hasColors(),
    singleLine: true,
    translateTime: "SYS:HH:MM:ss",
    ignore: "pid",
  });
  return { write: (line) => void stderr.write(format(line)) };
}
