/** How groups of dead letters, and the preview of a redrive, are printed. */
import { styleText } from "node:util";
import type { DeadGroup, DeadGroups } from "../../dead-letters/group.ts";
import type { RedrivePreview } from "../../dead-letters/preview-redrive.ts";
import type { UnknownWhy } from "../../dead-letters/forecast.ts";
import { faultOf, remedyOf, WHY_UNKNOWN } from "../../dead-letters/words.ts";
import { counted } from "../../ops/counted.ts";
import { allPrintable } from "../../ops/printable.ts";
import { clockTime } from "../../status/clock-time.ts";
import { countOf } from "./print.ts";

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
