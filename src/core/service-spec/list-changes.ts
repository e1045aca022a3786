/** How the value lists of a tenant differ between two schema-config responses. */
import type { Losses, TenantFieldConfig, TenantLists } from "./tenant-lists.ts";

/** What changed for one field. */
export interface ListChange {
  readonly field: string;
  /** How many values were added, and how many removed. */
  readonly added: number;
  readonly removed: number;
  /** Whether a value may be sent now that was left out before. */
  readonly allowsMore: boolean;
  /** For people: `1 value more, 2 fewer, no longer required`. */
  readonly says: string;
}

/** Of a field that the response does not name. */
const UNLISTED: TenantFieldConfig = { values: undefined, isRequired: false, multiSelect: true };

export function listChanges(before: TenantLists, after: TenantLists): ListChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const change = changeOf(field, before.get(field) ?? UNLISTED, after.get(field) ?? UNLISTED);
    return change.says === "" ? [] : [change];
  });
}

function changeOf(field: string, was: TenantFieldConfig, is: TenantFieldConfig): ListChange {
  const [old, current] = [was.values ?? new Set<string>(), is.values ?? new Set<string>()];
  const added = countMissing(current, old);
  const removed = countMissing(old, current);
  const [anyBefore, anyNow] = [was.values === undefined, is.values === undefined];
  const opens = anyNow && !anyBefore;
  const staysList = !anyNow && !anyBefore;
  const says = [
    opens && "any value allowed",
    anyBefore && !anyNow && `only ${current.size} values allowed`,
    staysList && added > 0 && `${added} ${added === 1 ? "value" : "values"} more`,
    staysList && removed > 0 && `${removed} ${removed === 1 ? "value" : "values"} fewer`,
    was.isRequired && !is.isRequired && "no longer required",
    !was.isRequired && is.isRequired && "required",
    was.multiSelect && !is.multiSelect && "only one value at a time",
    !was.multiSelect && is.multiSelect && "several values at a time",
  ].filter((text) => text !== false);
  const allowsMore = opens || (staysList && added > 0) || (!was.multiSelect && is.multiSelect);
  return { field, added, removed, allowsMore, says: says.join(", ") };
}

/** What the lists have lost, once they are `after`. @param now ms */
export function lossesAfter(
  losses: Losses,
  before: TenantLists,
  after: TenantLists,
  now: number,
): Losses {
  const all: Record<string, Losses[string]> = {};
  for (const [field, { values }] of after) {
    if (values === undefined) continue;
    const known = losses[field];
    const was = before.get(field)?.values;
    const gone = [...(was ?? [])].filter((value) => !values.has(value));
    const at = was === undefined || gone.length > 0 ? now : (known?.at ?? now);
    if (was === undefined || known?.values === "any") all[field] = { at, values: "any" };
    else {
      const lost = new Set([...(known?.values ?? []), ...gone]);
      const stillLost = [...lost].filter((value) => !values.has(value));
      if (stillLost.length > 0) all[field] = { at, values: stillLost };
    }
  }
  return all;
}

const countMissing = (values: ReadonlySet<string>, from: ReadonlySet<string>): number =>
  [...values].filter((value) => !from.has(value)).length;
