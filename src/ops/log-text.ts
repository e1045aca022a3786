/** Log lines for people; loaded only when they are wanted. */
import type { DestinationStream } from "pino";
import { prettyFactory } from "pino-pretty";
import { linesOnStderr } from "./log.ts";

export function textOnStderr(): DestinationStream {
  const stderr = linesOnStderr();
  const format = prettyFactory({
    colorize: process.stderr.isTTY && process.stderr.hasColors(),
    singleLine: true,
    translateTime: "SYS:HH:MM:ss",
    ignore: "pid",
  });
  return { write: (line) => stderr.write(format(line)) };
}
