/** Times of a cron expression of five fields, in the time zone of the process. */
import { CronExpressionParser } from "cron-parser";

/** @returns why the text is no cron expression; undefined when it is one */
export function cronProblem(text: string): string | undefined {
  if (text.trim().split(/\s+/).length !== 5) return "must have five fields, as 30 2 * * *";
  try {
    CronExpressionParser.parse(text).next();
    return undefined;
  } catch (error) {
    return `is no cron expression: ${(error as Error).message}`;
  }
}

const UTC_NAMES = /^:?(?:Etc\/)?(?:UTC|UCT|GMT|Zulu|Universal|Greenwich)(?:[+-]?0)?$/;

/**
 * Node takes a TZ that it does not know as UTC, without a word.
 * @param name the variable TZ; undefined when it is not set, and the process has the machine's time zone.
 * @returns what is wrong with it; undefined when this process has that time zone
 */
export function zoneProblem(name: string | undefined): string | undefined {
  if (!name || UTC_NAMES.test(name)) return undefined;
  // The type does not say so, but `timeZone` is undefined for an unknown zone.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined;
  if (zone !== undefined && zone !== "UTC" && zone !== "Etc/Unknown") return undefined;
  return "TZ is no time zone that Node knows: write it as Europe/Luxembourg";
}

/** The first time after `after` (ms), in the time zone of the process (TZ). */
export const nextTime = (cron: string, after: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(after) })
    .next()
    .getTime();

/** The last time at or before `at` (ms). */
export const lastTime = (cron: string, at: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(at + 1) })
    .prev()
    .getTime();
