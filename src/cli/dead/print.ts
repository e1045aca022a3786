/** How dead letters are printed, for people and as JSON. */
import { styleText } from "node:util";
import { laterOf, subjectOf } from "../../dead-letters/stored-event.ts";
import { laterText, remedyOf } from "../../dead-letters/words.ts";
import type { StoredDeadLetter } from "../../state/dead-letters.ts";
import { counted } from "../../ops/counted.ts";
import { allPrintable, printable } from "../../ops/printable.ts";
import { clockTime } from "../../status/clock-time.ts";
import { duration } from "../../status/duration.ts";

/** One line: its id, the record, the reason, when and from where. */
export function nameOf(stored: StoredDeadLetter, style = (id: string) => id): string {
  const { id, crmCode, reason, times, source, at } = allPrintable(stored);
  const often = times > 1 ? `, ${times} times` : "";
  const subject = printable(subjectOf(stored) ?? "no subject");
  const record = `${subject} (${crmCode === undefined ? "no crmCode" : `crmCode ${crmCode}`})`;
  return [style(id), record, reason, `${clockTime(at)}${often}`, source ?? ""].join("  ");
}

/** Its name, and below it what is wrong. @param leftMs until it is deleted; undefined: it never is, or the lines need not say it. */
export function linesOf(letter: StoredDeadLetter, leftMs?: number): string {
  const problems = allPrintable(letter.problems).map(
    ({ field, rule, kind }) => `${field === "" ? "(the whole)" : field} ${rule}; it is ${kind}`,
  );
  const end = leftMs === undefined ? "" : ` It is deleted in ${duration(leftMs)}.`;
  const remedy = styleText("dim", `${remedyOf(letter)}${end}`);
  const later = laterText(letter);
  const name = nameOf(letter, (id) => styleText("bold", id));
  return [name, ...problems, ...(later === undefined ? [] : [later]), remedy].join("\n    ");
}

/** @param leftMs until it is deleted; undefined: never. */
export function jsonOf(letter: StoredDeadLetter, leftMs: number | undefined) {
  const { id, reason, problems, source, crmCode, times, at, firstAt } = letter;
  return {
    id,
    reason,
    problems,
    source,
    crmCode,
    times,
    laterStatus: laterOf(letter)?.status,
    subject: subjectOf(letter),
    remedy: remedyOf(letter),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(at).toISOString(),
    deletedInSeconds: leftMs === undefined ? null : Math.round(leftMs / 1000),
  };
}

export const countOf = (count: number): string => counted(count, "dead letter");
