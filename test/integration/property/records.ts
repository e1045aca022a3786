/** The two records of the simulated CRM: how they change, and the events and bodies that follow. */
import type { Keeps } from "../../../src/core/sync/keeps.ts";

export const CODES = ["r0", "r1"] as const;
export type Code = (typeof CODES)[number];

export const KINDS = [
  "upsert",
  "delete",
  "full_delete",
  "restore",
  "bare_restore",
  "merge",
] as const;

export interface Change {
  readonly record: Code;
  readonly kind: (typeof KINDS)[number];
  /** There are few contents, so that two changes may be equal. See COMPANY and UNUSABLE. */
  readonly content: number;
  /** Second of the change; changes of the same second differ in sequence, or in arrival. */
  readonly time: number;
  readonly sequence: number;
  /** The object of the CRM whose record it is: several may have one crmCode. "contact" by default. */
  readonly writer?: string;
}

/** A content of the other variant. */
export const COMPANY = 3;

/** A content that the mapping makes an invalid payload of, until it is corrected. */
export const UNUSABLE = 4;
export const isUnusable = ({ firstName }: Readonly<Record<string, unknown>>): boolean =>
  firstName === `version ${UNUSABLE}`;

/** A content that no schedule has: its event is certainly a change of what crmsync knows. */
export const UNUSED = 5;

const TYPES = {
  upsert: "crm.record.updated",
  delete: "crm.record.deleted",
  full_delete: "crm.record.deleted",
  restore: "crm.record.restored",
  bare_restore: "crm.record.restored",
  merge: "crm.record.merged",
} as const;

export const otherRecord = (code: Code): Code => (code === "r0" ? "r1" : "r0");

export function bodyOf(crmCode: string, content: number): Record<string, unknown> {
  return content === COMPANY
    ? { type: "Company", crmCode, name: "Muster & Co" }
    : { type: "Person", crmCode, firstName: `version ${content}`, lastName: "Muster" };
}

/** Fields that others maintain at the service, in the schedules in which they edit them by hand. */
export const KEEPS: Keeps = { Person: { maidenName: "always", phoneNumber: "ifPresent" } };

/** Fields that one content has and that are not understood: the service keeps what it has, for this change alone. */
export const keptOnce = (content: number): readonly string[] => (content === 2 ? ["city"] : []);

/** With the CRM's own values of these fields; some contents have no telephone number. */
export function withKept(body: Record<string, unknown>): Record<string, unknown> {
  if (body["type"] !== "Person") return body;
  const number = Number(String(body["firstName"]).split(" ")[1]);
  const phoneNumber = number % 2 === 1 ? { phoneNumber: `+352 ${number}` } : {};
  const city = keptOnce(number).length === 0 && { city: `Zug ${number}` };
  return { ...body, maidenName: `born ${number}`, ...phoneNumber, ...city };
}

/** Whether the event brings the record: it decides the fields, not only the status. */
export const hasRecord = ({ kind }: Change): boolean =>
  kind !== "delete" && kind !== "bare_restore";

/** @param number which event of the schedule it is; becomes its id. */
export function eventOf(change: Change, number: number): Record<string, unknown> {
  const { record, kind, content, time, sequence, writer = "contact" } = change;
  return {
    specversion: "1.0",
    source: "/crm",
    id: String(number),
    type: TYPES[kind],
    subject: `${writer}/${record}`,
    time: `2026-01-01T00:00:0${time}.000Z`,
    sequence: String(sequence),
    data: {
      ...(hasRecord(change) && { record: bodyOf(record, content) }),
      ...(kind === "merge" && { merged: [`contact/${otherRecord(record)}`] }),
    },
  };
}
