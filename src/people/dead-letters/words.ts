/** How dead letters, their faults and forecasts are put into words. */
import { allPrintable } from "../../base/printable.ts";
import type { StoredDeadLetter } from "../../core/state/dead-letters.ts";
import { isTenantProblem } from "../../core/sync/validate.ts";
import { REMEDIES } from "../../core/sync/dead-letter.ts";
import type { Forecast, UnknownWhy } from "./forecast.ts";
import type { GroupKey } from "./group-of.ts";
import type { RedrivePreview } from "./preview-redrive.ts";
import { laterOf } from "./stored-event.ts";

/** The fault of a group: field and rule. */
export const faultOf = ({ field, rule }: Pick<GroupKey, "field" | "rule">): string =>
  rule === "" ? "no field is named" : `${field === "" ? "(the whole)" : field}: ${rule}`;

export function remedyOf({ problems = [], reason, rule }: Failed): string {
  const rules = rule === undefined ? problems : [{ rule }];
  if (reason === "invalid" && rules.length > 0 && rules.every(isTenantProblem))
    return TENANT_REMEDY;
  // Another version of crmsync may have stored it.
  return REMEDIES[reason] ?? "See the documentation of this version.";
}

/** A dead letter, or the fault of several. */
type Failed = Pick<StoredDeadLetter, "reason"> &
  Partial<Pick<StoredDeadLetter, "problems"> & Pick<GroupKey, "rule">>;

const TENANT_REMEDY =
  "Correct the named fields in the CRM, give the mapping a `default` or a `table` for them, or have the tenant allow the values: it is then redriven by itself.";

/** What a redrive does beside accepting the event; undefined: nothing. */
export function laterText(letter: StoredDeadLetter): string | undefined {
  const later = laterOf(letter);
  if (later === undefined) return undefined;
  const done = later.status === "terminated" ? "ended" : "restored";
  return `A later event without fields has ${done} the record: a redrive carries out both.`;
}

const WHY_UNKNOWN: Readonly<Record<UnknownWhy, string>> = {
  fetch: "the record must be fetched from its CRM first",
  service: "the service itself rejected it, so only the service can say",
  lists: "the tenant's value lists are not known yet",
};

/** What a redrive would achieve: how many letters, and what becomes of them; faults stand below their sum. */
export const previewRows = (preview: RedrivePreview): (readonly [number, string])[] =>
  [
    [preview.sent, "would be sent"] as const,
    [
      preview.settled,
      "would end without a request: unchanged, ignored by the mapping, or replaced by a newer event",
    ] as const,
    [preview.fails, "would fail again"] as const,
    ...allPrintable(preview.failing).map(
      (group) => [group.letters, `of them: ${faultOf(group)} (${group.reason})`] as const,
    ),
    ...Object.entries(WHY_UNKNOWN).map(
      ([why, says]) =>
        [preview.unknown[why as UnknownWhy], `cannot be known beforehand: ${says}`] as const,
    ),
  ].filter(([letters]) => letters > 0);

/** The forecast of one dead letter in words. */
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
