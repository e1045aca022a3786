/** How dead letters, their groups and the preview of a redrive are printed, for people and as JSON. */
import { styleText } from "node:util";
import type { UnknownWhy } from "../../dead-letters/forecast.ts";
import type { DeadGroup, DeadGroups } from "../../dead-letters/group.ts";
import type { RedrivePreview } from "../../dead-letters/preview-redrive.ts";
import { laterOf, subjectOf } from "../../dead-letters/stored-event.ts";
import { faultOf, laterText, remedyOf, WHY_UNKNOWN } from "../../dead-letters/words.ts";
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

const columnsOf = (letters: number): string => String(letters).padStart(6);

export function linesOfGroup(stored: DeadGroup): string {
  const group = allPrintable(stored);
  const { letters, firstAt, lastAt, example, reason, sources } = group;
  const kind = example.kind === "" ? "" : `; in the newest it is ${example.kind}`;
  const from = sources.length === 0 ? "" : `, from ${sources.join(", ")}`;
  const count = styleText("bold", columnsOf(letters));
  return [
    `${count}  ${faultOf(group)} (${reason})${kind}`,
    `${group.id}  first ${clockTime(firstAt)}, last ${clockTime(lastAt)}${from}; e.g. ${example.id}`,
    styleText("dim", remedyOf(group)),
  ].join("\n        ");
}

export function jsonOfGroup({ id, firstAt, lastAt, ...group }: DeadGroup) {
  return {
    group: id,
    ...group,
    remedy: remedyOf(group),
    firstAt: new Date(firstAt).toISOString(),
    lastAt: new Date(lastAt).toISOString(),
  };
}

export function sumOfGroups({ letters, inSeveral, groups, leftOut }: DeadGroups): string {
  const several =
    inSeveral === 0 ? "" : `; ${counted(inSeveral, "of them has", "of them have")} several faults`;
  const more =
    leftOut === 0
      ? ""
      : `; ${counted(leftOut, "more fault")} in smaller groups: crmsync dead list names them`;
  return `${countOf(letters)} in ${counted(groups.length, "group")}${several}${more}`;
}

/** What a redrive would achieve, a line each. */
export function linesOfPreview(preview: RedrivePreview): string[] {
  const { sent, settled, fails, unknown, failing } = preview;
  const line = (count: number, text: string) =>
    count === 0 ? [] : [`${columnsOf(count)}  ${text}`];
  return [
    ...line(sent, "would be sent"),
    ...line(
      settled,
      "would end without a request: unchanged, ignored by the mapping, or replaced by a newer event",
    ),
    ...line(fails, "would fail again:"),
    ...failing.map((group) => {
      const { letters, reason, ...fault } = allPrintable(group);
      return `        ${columnsOf(letters)}  ${faultOf(fault)} (${reason})`;
    }),
    ...(Object.keys(WHY_UNKNOWN) as UnknownWhy[]).flatMap((why) =>
      line(unknown[why], `cannot be known beforehand: ${WHY_UNKNOWN[why]}`),
    ),
  ];
}
