// A mapping as a module, for cases that expressions cannot handle:
// MAPPING=examples/mapping.ts crmsync start
//
// `event` has recordId, object, subject, type and source. `record` is undefined for a deletion
// without a record; then only the crmCode is needed. Return undefined for records that must not be
// sent. crmsync converts the values: "Schweiz" becomes CH, "31.12.1966" becomes 1966-12-31. The type
// of what is returned lets an editor underline a field that the service does not have.
import type { MappedRecord, MapRecord } from "crmsync";

interface Client {
  readonly company?: string;
  readonly fullName?: string;
  readonly country?: string;
  readonly born?: string;
  readonly internal?: boolean;
}

export const mapRecord: MapRecord<Client> = (record, event): MappedRecord | undefined => {
  if (record?.internal === true) return undefined;
  const crmCode = `acme-${event.recordId}`;
  if (record?.company !== undefined) {
    return {
      crmCode,
      fields: { type: "Company", name: record.company, countryOfOperation: record.country },
    };
  }
  const [lastName, firstName] = (record?.fullName ?? "").split(/\s*,\s*/);
  return {
    crmCode,
    fields: {
      type: "Person",
      firstName,
      lastName,
      birthDate: record?.born,
      countryOfResidence: record?.country,
    },
  };
};
