/** Records that say themselves that the CRM has deleted them: soft deletes, recycle bins, archives. */

type CrmRecord = Readonly<Record<string, unknown>>;

/** Names in small letters without signs: deletedAt, deleted_at, IsDeleted, is_deleted, … */
const FLAG = /^(?:is|soft)?deleted$/;
const TIME = /^(?:deleted(?:at|on|date|time)|date(?:time)?deleted)$/;

/** Fields that mean it in one CRM, and something else in others, by the beginning of the source. */
const OWN: readonly (readonly [source: string, saysGone: (record: CrmRecord) => boolean])[] = [
  ["/hubspot/", ({ archived }) => isTrue(archived)],
  ["/pipedrive/", ({ active_flag: isActive }) => isActive === false],
];

/** @param source of the event that brought the record */
export function saysGone(record: CrmRecord, source: string): boolean {
  if (OWN.some(([crm, isGone]) => source.startsWith(crm) && isGone(record))) return true;
  // This is the form of a record in HubSpot's API. The event may have another source.
  if (typeof record["properties"] === "object" && record["archived"] === true) return true;
  return Object.entries(record).some(([key, value]) => {
    const name = key.replaceAll(/[^a-z]/gi, "").toLowerCase();
    return (FLAG.test(name) && isTrue(value)) || (TIME.test(name) && isTime(value));
  });
}

const isTrue = (value: unknown): boolean =>
  value === true || value === 1 || (typeof value === "string" && /^(?:true|1|yes)$/i.test(value));

/** Some programs write 0 or a year 0000 for no time. */
const isTime = (value: unknown): boolean =>
  (typeof value === "string" && /[1-9]/.test(value) && !value.startsWith("0000")) ||
  (typeof value === "number" && value > 0);
