/** Times of a cron expression of five fields. Pure. */
import { CronExpressionParser } from "cron-parser";

/** @returns why it is none; undefined when it is one */
export function cronProblem(text: string): string | undefined {
  if (text.trim().split(/\s+/).length !== 5) return "must have five fields, as 30 2 * * *";
  try {
    CronExpressionParser.parse(text).next();
    return undefined;
  } catch (error) {
    return `is no cron expression: ${(error as Error).message}`;
  }
}

/** The first time after this one, in the time zone of the process (TZ). @param after ms */
export const nextTime = (cron: string, after: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(after) })
    .next()
    .getTime();

/** The last time that is not after this one. @param at ms */
export const lastTime = (cron: string, at: number): number =>
  CronExpressionParser.parse(cron, { currentDate: new Date(at + 1) })
    .prev()
    .getTime();
