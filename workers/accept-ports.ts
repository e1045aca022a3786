/** What accepting an event needs of a daemon (src/sync/accept-event.ts). */
import { withOwnIds } from "../src/crm/own-ids.ts";
import { splitSubject, type CrmEvent } from "../src/event/crm-event.ts";
import { FIELD_NAMES } from "../src/mapping/fields.ts";
import { isUnusable, mapEventRecord } from "../src/mapping/map-event-record.ts";
import type { MappingResult } from "../src/mapping/mapping.ts";
import { NO_LISTS } from "../src/service-spec/tenant-lists.ts";
import type { ContentHash } from "../src/event/event-key.ts";
import type { AcceptPorts } from "../src/sync/accept-event.ts";
import type { FingerprintOf } from "../src/sync/fingerprint.ts";
import type { Keeps } from "../src/sync/keeps.ts";
import type { Mapped } from "../src/sync/mapped.ts";
import { adoptKeptFields } from "./kept-fields.ts";
import { requestFetch, requestOwners } from "./request-fetch.ts";
import type { Runtime } from "./runtime.ts";

/** Records may hold fields of any name; those unknown to the service share this label. */
const OTHER_FIELD = "other";

export interface IntakePorts {
  /** By the kept fields that the mapping has now. */
  current(): Promise<AcceptPorts>;
}

export function openPorts(runtime: Runtime): IntakePorts {
  const { clock, deadLetters, history, keyring, mapping, staged, tenantLists, tracing } = runtime;
  const portsFor = (
    keeps: Keeps,
    fingerprintOf: FingerprintOf,
    contentOf: ContentHash,
  ): AcceptPorts => ({
    now: () => clock.latest(),
    fingerprintOf,
    contentOf,
    map: (event, subject) => tracing.span("map", {}, () => mapRecord(runtime, event, subject)),
    objects: () => mapping.objects,
    withOwnIds,
    fetch: (event, crm, order) => requestFetch(runtime, event, crm, order),
    requestOwners: (event, order) => requestOwners(runtime, event, order),
    lists: () => tenantLists.known(),
    askListsAgain: () => tenantLists.askAgain(clock.now()),
    codeOf: (subject) => staged.codeOf(subject),
    seenAs: (key, content) => staged.seenAs(key, content),
    stage: (state) =>
      tracing.span("stage", {}, () =>
        staged.stage({ ...state, keeps, trace: tracing.carried?.() }),
      ),
    storeDeadLetter: (letter) => deadLetters.store(letter),
    dropDeadLetter: (crmCode, order) => deadLetters.dropOlder(crmCode, order),
    note(step, crmCode) {
      history.note(crmCode === undefined ? step.event : { crmCode }, step);
    },
  });
  let last: { readonly keeps: Keeps; readonly ports: AcceptPorts } | undefined;
  return {
    async current() {
      await adoptKeptFields(runtime);
      const { keeps } = mapping;
      if (last?.keeps !== keeps) {
        const fingerprintOf = await keyring.fingerprintOf(keeps);
        last = { keeps, ports: portsFor(keeps, fingerprintOf, await keyring.contentHash()) };
      }
      return last.ports;
    },
  };
}

async function mapRecord(runtime: Runtime, event: CrmEvent, subject: string): Promise<Mapped> {
  const { crmChecks, mapping, tenantLists } = runtime;
  const { object, recordId } = splitSubject(subject);
  const { type, source, data } = event;
  const context = { type, source, subject, object, recordId, partial: data?.partial };
  // The record is the event's own: a record that was merged into it comes without one.
  const record = subject === event.subject ? event.data?.record : undefined;
  const lists = tenantLists.known() ?? NO_LISTS;
  const options = { changed: crmChecks.changed() };
  const mapped = await mapEventRecord(mapping, context, record, lists, options);
  if (mapped.kind !== "ignored") reportWarnings(runtime, mapped, subject);
  if (mapped.kind !== "mapped") return mapped;
  return { ...mapped, warned: mapped.warnings };
}

/** Values themselves are personal data: only `crmsync preview` shows them. */
function reportWarnings(
  { metrics, log, recordName }: Runtime,
  { crmCode, warnings }: Exclude<MappingResult, { kind: "ignored" }>,
  subject: string,
): void {
  for (const { field, reason, kind } of warnings) {
    const label = FIELD_NAMES.includes(field) ? field : OTHER_FIELD;
    metrics.mappingWarnings.inc({ field: label, reason });
    if (isUnusable(reason)) metrics.countLeftOut(label);
    const record = recordName(crmCode ?? subject);
    log.debug({ record, fields: [label], why: reason, kind }, "record.value_left_out");
  }
}
