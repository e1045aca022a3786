let eventNumber = 0;

/** An event as a CRM would send it; its `time` is now unless `envelope` says otherwise. */
export function personEvent(
  crmCode: string,
  fields: Record<string, unknown> = {},
  envelope: Record<string, unknown> = {},
): Record<string, unknown> & { source: string; id: string } {
  eventNumber += 1;
  return {
    specversion: "1.0",
    id: `${process.pid}-${eventNumber}`,
    source: "/crm/test",
    type: "crm.record.updated",
    subject: `contact/${crmCode}`,
    time: new Date().toISOString(),
    data: {
      record: { type: "Person", crmCode, firstName: "Ada", lastName: "Muster", ...fields },
    },
    ...envelope,
  };
}

/** Events of so many persons: `<prefix>0`, `<prefix>1` … */
export const people = (count: number, prefix = "r", fields: Record<string, unknown> = {}) =>
  Array.from({ length: count }, (_, n) => personEvent(`${prefix}${n}`, fields));
