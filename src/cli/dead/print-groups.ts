/** How groups of dead letters, and the preview of a redrive, are printed. */
import { styleText } from "node:util";
import type { DeadGroup, DeadGroups } from "../../dead-letters/group.ts";
import type { GroupKey } from "../../dead-letters/group-of.ts";
import type { RedrivePreview } from "../../dead-letters/preview-redrive.ts";
import type { UnknownWhy, Forecast } from "../../dead-letters/forecast.ts";
import { counted } from "../../ops/counted.ts";
import { allPrintable } from "../../ops/printable.ts";
import { clockTime } from "../../status/clock-time.ts";
import { countOf, remedyOf } from "./print.ts";

/** The fault of a group: field and rule. */
const faultOf = ({ field, rule }: Pick<GroupKey, "field" | "rule">): string =>
  rule === "" ? "no field is named" : `${field === "" ? "(the whole)" : field}: ${rule}`;

const columnsOf = (letters: number): string => String(letters).padStart(6);

export function linesOfGroup(stored: DeadGroup): string {
  const group = allPrintable(stored);
  const { letters, firstAt, lastAt, example, reason, sources } = group;
  const kind = example.kind === "" ? "" : `; it is ${example.kind}`;
  const from = sources.length === 0 ? "" : `, from ${sources.join(", ")}`;
  const count = styleText("bold", columnsOf(letters));
  return [
    `${count}  ${faultOf(group)} (${reason})${kind}\n`,
    `        ${group.id}  first ${clockTime(firstAt)}, last ${clockTime(lastAt)}${from}; e.g. ${example.id}\n`,
    `        ${styleText("dim", remedyOf(group))}\n`,
  ].join("");
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
  return `${countOf(letters)} in ${counted(groups.length, "group")}${several}${more}\n`;
}

const WHY_UNKNOWN: Readonly<Record<UnknownWhy, string>> = {
  fetch: "the record must be fetched from its CRM first",
  service: "the service itself rejected it, so only the service can say",
  lists: "the tenant's value lists are not known yet",
};

/** What a redrive would achieve, a line each. */
export function linesOfPreview(preview: RedrivePreview): string {
  const { sent, settled, fails, unknown, failing } = preview;
  const line = (count: number, text: string) =>
    count === 0 ? [] : [`${columnsOf(count)}  ${text}\n`];
  const lines = [
    ...line(sent, "would be sent"),
    ...line(
      settled,
      "would end without a request: unchanged, ignored by the mapping, or replaced by a newer event",
    ),
    ...line(fails, "would fail again:"),
    ...failing.map((group) => {
      const { letters, reason, ...fault } = allPrintable(group);
      return `        ${columnsOf(letters)}  ${faultOf(fault)} (${reason})\n`;
    }),
    ...(Object.keys(WHY_UNKNOWN) as UnknownWhy[]).flatMap((why) =>
      line(unknown[why], `cannot be known beforehand: ${WHY_UNKNOWN[why]}`),
    ),
  ];
  return lines.join("");
}

/** Of one dead letter. */
export function forecastText(forecast: Forecast): string {
  switch (forecast.kind) {
    case "sent":
      return "would be sent";
    case "settled":
      return "would end without a request";
    case "unknown":
      return `cannot be known beforehand: ${WHY_UNKNOWN[forecast.why]}`;
    case "fails": {
      const faults = allPrintable(forecast.problems).map(faultOf);
      return `would fail again: ${faults.length === 0 ? forecast.reason : faults.join("; ")}`;
    }
  }
}
