/** Records that say themselves that the CRM has deleted them: soft deletes, recycle bins, archives. */

type CrmRecord = Readonly<Record<string, unknown>>;

/** Names in small letters without signs: deletedAt, deleted_at, IsDeleted, is_deleted, … */
const FLAG = /^(?:is|soft)*deleted$/;
const TIME = /^(?:soft)?(?:deleted(?:at|on|date|time|datetime|timestamp)|date(?:time)?deleted)$/;

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
    return (FLAG.test(name) || TIME.test(name)) && (isTrue(value) || isTime(value));
  });
}

/** Also as a spreadsheet writes it in its language. */
const YES =
  /^\s*(?:true|1|yes|y|t|wahr|vrai|vero|verdadero|verdadeiro|waar|ja|oui|s[iíì]|sim)\s*$/i;

const isTrue = (value: unknown): boolean =>
  value === true || value === 1 || (typeof value === "string" && YES.test(value));

/** Programs write the first day of their calendar for no time: 0001-01-01, 1900-01-01, 1970-01-01, and 9999 for never. */
const DATED = /(?<!\d)(?:19[89]|20)\d\d(?!\d)|^(?:19[89]|20)\d{6}|^[1-9]\d{8,}$/;

const isTime = (value: unknown): boolean =>
  (typeof value === "string" && DATED.test(value)) || (typeof value === "number" && value > 1);
