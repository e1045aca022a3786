/** The ports of a trial: an event goes intake's own way, and nothing of it has an effect but what the caller's ports do. */
import { eventRules, mapEvent } from "../../intake/mapping/map-event-record.ts";
import type { MapOptions, Mapping, MappingResult } from "../../intake/mapping/mapping.ts";
import type { TenantLists } from "../../core/service-spec/tenant-lists.ts";
import type { AcceptPorts } from "../../core/sync/accept-event.ts";
import { TRIAL_RECORDS, type RecordPorts } from "../../core/sync/end-record.ts";
import { fetchedInTrial } from "../../core/sync/map-change.ts";

interface TrialView extends MapOptions, Pick<AcceptPorts, "fingerprintOf"> {
  readonly mapping: Mapping;
  /** Undefined while the tenant's lists are not known. */
  readonly lists: TenantLists | undefined;
  /** The crmCode to which a record of the CRM led before. */
  readonly codeOf: (subject: string) => Promise<string | undefined>;
  /** Gets what the mapping has made of each record, and returns what goes on. */
  readonly mapped?: (one: MappingResult) => MappingResult;
}

export const trialPorts = (
  view: TrialView,
  records: Pick<RecordPorts, "stage"> & Partial<RecordPorts>,
): AcceptPorts => {
  const { changed = {}, codeOf, explain = false, fingerprintOf, lists, mapping } = view;
  const { mapped = (one) => one } = view;
  return {
    rules: eventRules(mapping),
    mapping: {
      fetch: fetchedInTrial(mapping),
      map: async (event, subject, known) =>
        mapped(await mapEvent(mapping, event, subject, known, { changed, explain })),
      codeOf,
    },
    lists: { known: () => lists, askAgain: async () => false },
    fingerprintOf,
    records: { ...TRIAL_RECORDS, ...records },
  };
};
