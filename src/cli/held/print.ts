/** How held changes are printed, for people and as JSON. */
import { styleText } from "node:util";
import { counted } from "../../ops/counted.ts";
import { printable } from "../../ops/printable.ts";
import { originOf } from "../../held/origin.ts";
import { heldBecause } from "../../sync/record.ts";
import type { HeldTermination } from "../../state/held-terminations.ts";
import { clockTime } from "../../status/clock-time.ts";

/** One line: the crmCode, the event and its record, when, why it is held, and from where. */
export function nameOf(held: HeldTermination): string {
  const { type, subject, source } = originOf(held);
  const happened = Number.isFinite(held.time) ? `of ${clockTime(held.time)}` : "";
  return [
    styleText("bold", printable(held.crmCode)),
    printable(`${type} ${subject}`),
    `${happened}, held since ${clockTime(held.heldAt)}: ${heldBecause(held.why, held.fields)}`,
    printable(source ?? ""),
  ].join("  ");
}

export function jsonOf(held: HeldTermination) {
  const { crmCode, fields, heldAt, lane, time, why } = held;
  return {
    crmCode,
    ...originOf(held),
    lane,
    time: Number.isFinite(time) ? new Date(time).toISOString() : null,
    heldSince: new Date(heldAt).toISOString(),
    why,
    ...(fields.length > 0 && { fields }),
  };
}

export const countOf = (count: number): string => counted(count, "held change");
