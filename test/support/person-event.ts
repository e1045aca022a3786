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
