/** How dead letters are printed, for people and as JSON. */
import { styleText } from "node:util";
import type { StoredDeadLetter } from "../../state/dead-letters.ts";
import { counted } from "../../ops/counted.ts";
import { REMEDIES } from "../../sync/dead-letter.ts";

/** The event as it came; its text where it is not JSON. */
export function eventOf(letter: StoredDeadLetter): unknown {
  try {
    return JSON.parse(letter.event) as unknown;
  } catch {
    return letter.event;
  }
}

/** The record of the CRM, `<object>/<recordId>`; undefined where the event does not name it. */
export function subjectOf(letter: StoredDeadLetter): string | undefined {
  const event = eventOf(letter);
  const subject =
    typeof event === "object" && event !== null && "subject" in event ? event.subject : undefined;
  return typeof subject === "string" ? subject : undefined;
}

/** One line: its id, the record, the reason, when and from where. */
export function nameOf(letter: StoredDeadLetter): string {
  const when = new Date(letter.at).toISOString().slice(0, 19).replace("T", " ");
  const often = letter.times > 1 ? `, ${letter.times} times` : "";
  const record = `${subjectOf(letter) ?? "no subject"} (${letter.crmCode === undefined ? "no crmCode" : `crmCode ${letter.crmCode}`})`;
  return [
    styleText("bold", letter.id),
    record,
    letter.reason,
    `${when}${often}`,
    letter.source ?? "",
  ].join("  ");
}

export function linesOf(letter: StoredDeadLetter): string {
  const problems = letter.problems.map(
    ({ field, rule, kind }) =>
      `    ${field === "" ? "(the whole)" : field} ${rule}; it is ${kind}\n`,
  );
  return [`${nameOf(letter)}\n`, ...problems, `    ${styleText("dim", remedyOf(letter))}\n`].join(
    "",
  );
}

export function jsonOf(letter: StoredDeadLetter) {
  const { event: _, order: __, arrival: ___, raw: ____, at, firstAt, ...rest } = letter;
  return {
    ...rest,
    subject: subjectOf(letter),
    remedy: remedyOf(letter),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(at).toISOString(),
  };
}

const remedyOf = (letter: StoredDeadLetter): string =>
  // Another version of crmsync may have stored it.
  REMEDIES[letter.reason] ?? "See the documentation of this version.";

export const countOf = (count: number): string => counted(count, "dead letter");
