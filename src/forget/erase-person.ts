/** Erases a person by the names that an operator gives. */
import type { Mapping } from "../mapping/mapping.ts";
import { counted } from "../ops/counted.ts";
import type { ActBy } from "../state/audit-acts.ts";
import type { Stores } from "../status/stores.ts";
import { eraseTraces, isEmpty } from "./erase-traces.ts";
import { TraceFinder, TRACES, type Counts } from "./find-traces.ts";
import { eventNames } from "./name-event.ts";
import { rewriteFile } from "./rewrite-file.ts";

/** Waits this much longer than a request may hold its record, ms. */
const MARGIN_MS = 60_000;

const REWRITE_MS = 120_000;

type FoundPerson = Awaited<ReturnType<typeof findPerson>>;

export type Report = Awaited<ReturnType<typeof erasePerson>>;

export async function findPerson(stores: Stores, mapping: Mapping, names: readonly string[]) {
  await stores.tenantLists.reload();
  const events = eventNames(mapping, stores.tenantLists.current());
  const finder = new TraceFinder(stores, events, names);
  return { names, finder, found: await finder.find() };
}

export async function erasePerson(
  stores: Stores,
  { finder, found, names }: FoundPerson,
  { by, details }: ActBy,
  onWait: () => void,
) {
  const { auditActs, config, redis, stateVersion } = stores;
  await stateVersion.require();
  const act = "forget";
  for (const crmCode of found.crmCodes)
    await auditActs.record({ act, by, crmCode, details: { ...details } });
  // No crmCode is known: the record could not be mapped, for instance, or nothing is known of the person.
  if (found.crmCodes.length === 0) {
    const records = [...new Set([...names, ...found.subjects])];
    await auditActs.record({ act, by, details: { ...details, records } });
  }
  const withinMs = 2 * config.SERVICE_TIMEOUT_MS + MARGIN_MS;
  const done = await eraseTraces(stores, finder, found, { withinMs, onWait });
  // Before the file is rewritten. While something is left, the approval of this very act still needs its own.
  if (isEmpty(done.left)) await stores.approvals.forget([...found.crmCodes, ...finder.subjects]);
  return {
    ...done,
    /** Undefined: the Redis is the operator's own, and rewriting its file is left to the operator. */
    isFileRewritten:
      config.REDIS_URL === undefined ? await rewriteFile(redis, REWRITE_MS) : undefined,
  };
}

/** "1 row of the ledger, 2 dead letters" */
export const listOf = (counts: Readonly<Counts>): string =>
  (Object.keys(TRACES) as (keyof typeof TRACES)[])
    .flatMap((kind) => {
      const [one, many] = TRACES[kind];
      return counts[kind] === undefined ? [] : [counted(counts[kind], one, many)];
    })
    .join(", ");
