/** The comparison from beginning to end: snapshot, listing, live changes, numbers. */
import { crmsync } from "../../base/command.ts";
import { TryLater } from "../../base/user-error.ts";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { splitSubject, type CrmEvent } from "../../core/event/crm-event.ts";
import { eventOrder } from "../../core/event/event-order.ts";
import { PathSearch } from "../../intake/mapping/unread-paths.ts";
import type { Permit } from "../../core/quota/permit.ts";
import { readEvents, type RecordOptions } from "./read-events.ts";
import { ingest, type Ingested } from "./ingest.ts";
import { removeLeftOvers } from "./left-overs.ts";
import { forgetOldListing, listService, type Listed } from "./list-service.ts";
import type { OpenSnapshot } from "./open-snapshot.ts";
import { isShortList } from "./guards.ts";
import { lackingIn, resolveLive, type LiveStores } from "./resolve-live.ts";
import type { Ledger } from "../../core/state/ledger.ts";
import { viewOf, type Session } from "./session.ts";
import { summarise, type Summary } from "./summary.ts";
import { WorkFile } from "./work-file.ts";

export interface ComparisonOptions extends RecordOptions {
  /** When the snapshot was taken, ms. */
  readonly asOf: number;
  readonly showValues?: boolean;
  /** Whether relations that are not known as ours count as missing in the CRM, too. */
  readonly includeForeign?: boolean | undefined;
}

export interface Comparison {
  readonly summary: Summary;
  /** Requests that it has spent. */
  readonly requests: number;
  /** When the service's list began, ms. */
  readonly listedAt: number;
  /** Closed by the caller, who removes it when it is not needed any more. */
  readonly work: WorkFile;
}

export interface ComparisonProgress {
  /** Called for each page. */
  readonly listing: (listed: Listed, expected: number) => void;
  /** Called with what the next page waits for, when that takes long; with "" when it goes on. */
  readonly waiting?: (text: string) => void;
}

/** When a page has waited this long for its request, a message tells the operator, ms. */
const LONG_MS = 5000;

/** @throws UserError; what was listed is then kept for the next try. */
export async function runComparison(
  session: Session,
  snapshot: OpenSnapshot,
  options: ComparisonOptions,
  progress: ComparisonProgress,
): Promise<Comparison> {
  const { config, fingerprintOf, mapping, service, stores } = session;
  removeLeftOvers(session.dir);
  const work = new WorkFile(
    join(session.dir, `work-${identityOf(session, snapshot, options)}.sqlite`),
  );
  const now = () => stores.clock.now();
  try {
    const asOf = (work.progress("asOf") as number | undefined) ?? Math.min(options.asOf, now());
    const ingested = await read(session, snapshot, { ...options, asOf }, work).catch(
      (error: unknown) => {
        // It is read from its beginning again.
        work.remove();
        throw error;
      },
    );
    if (!(await snapshot.isUnchanged())) {
      work.remove();
      throw new TryLater(
        `${snapshot.name} was changed while it was read: another program still writes it. Nothing was sent. Compare it when it is complete`,
      );
    }
    work.note("asOf", asOf);
    work.note("order", eventOrder({ time: new Date(asOf).toISOString() }, 0));
    const { deployed, token } = session;
    // What another mapping would change is only shown: the ledger stays as the daemon's mapping has it.
    const ledger = deployed === undefined ? stores.ledger : unhealed(stores.ledger);
    forgetOldListing(work, { now, token });
    const expected = Math.max(ingested.records, await stores.redis.hlen(stores.keys.ledger));
    const listed = await listService(
      {
        client: service.client,
        token,
        acquire: () => acquireTold(service.quota, progress.waiting),
        ledger,
        fingerprintOf,
        keeps: mapping.keeps,
        now,
        retryBaseMs: config.RETRY_BASE_MS,
        keepBody: options.showValues
          ? (crmCode, relation) => stores.sealing.seal(JSON.stringify(relation), crmCode)
          : undefined,
      },
      work,
      (so) => progress.listing(so, expected),
    );
    const lacking = await lackingIn(stores, work, listed);
    // A guard will stop the comparison: the ledger knows better than such a list.
    const foreign = isShortList(lacking, listed.relations)
      ? 0
      : await resolveLive({ ...stores, ledger }, work, listed, options.includeForeign);
    const requests = session.requests + listed.requests;
    const more = { encoding: snapshot.scan.encoding, foreign, lacking };
    const summary = summarise(work, ingested, listed, more);
    return { summary, requests, listedAt: listed.startedAt, work };
  } catch (error) {
    work.close();
    throw error;
  }
}

const unhealed = (ledger: Ledger): LiveStores["ledger"] => ({
  heal: async () => 0,
  rowsOf: (crmCodes) => ledger.rowsOf(crmCodes),
});

/** Reads the snapshot twice: which fields its records have at all, then what the mapping makes of each. */
async function read(
  session: Session,
  snapshot: OpenSnapshot,
  options: ComparisonOptions,
  work: WorkFile,
): Promise<Ingested> {
  const { mapping } = session;
  const { asOf, idFrom } = options;
  const search = new PathSearch(mapping);
  const known = work.progress("ingested") !== undefined;
  const first = readEvents({ ...snapshot, onBytes() {} }, mapping, options, asOf);
  for await (const { event, header } of known ? [] : first) {
    const { data, subject } = event as Partial<CrmEvent>;
    search.see(splitSubject(String(subject)).object, data?.record, header);
    // All rows have the same columns.
    if (header !== undefined) break;
  }
  let skipped = 0;
  const counted = { ...snapshot, onSkipped: () => (skipped += 1) };
  const view = { ...(await viewOf(session)), notCarried: search.notCarried() };
  return ingest(readEvents(counted, mapping, options, asOf), view, work, {
    idFrom,
    skipped: () => skipped,
    unread: search.unread(),
  });
}

/**
 * Gets a permit, and tells the operator when that takes long. The quota may be used up for most of an hour: without
 * a message, the command would seem to hang.
 */
async function acquireTold(
  quota: Session["service"]["quota"],
  tell: (text: string) => void = () => {},
): Promise<Permit> {
  let isTold = false;
  const late = setTimeout(() => {
    isTold = true;
    tell(`it waits until a request may be sent; ${crmsync`status`} says why, and until when`);
  }, LONG_MS);
  try {
    return await quota.acquire("bulk");
  } finally {
    clearTimeout(late);
    if (isTold) tell("");
  }
}

/** A later comparison of the same identity continues this one. */
function identityOf(session: Session, snapshot: OpenSnapshot, options: ComparisonOptions): string {
  const { baseUrl, config, fingerprintOf, mappingHash, stores } = session;
  const { asOf, includeForeign, object, idFrom, showValues } = options;
  // Standard input without --as-of: the time is only that of the command's start, and differs each time.
  const isStartOfCommand = snapshot.path === undefined && asOf === snapshot.takenAt;
  const lists = [...stores.tenantLists.current()].map(([field, list]) => [
    field,
    { ...list, values: list.values && [...list.values] },
  ]);
  const parts = [
    // Of the columns of the work file.
    [
      "8",
      baseUrl,
      config.QUEUE_PREFIX,
      mappingHash,
      snapshot.scan.hash,
      snapshot.scan.encoding,
      snapshot.path,
      snapshot.reading,
      lists,
    ],
    [object, idFrom, showValues, includeForeign, isStartOfCommand ? undefined : asOf],
    // Fingerprints of another key mean nothing here.
    [fingerprintOf({ type: "Person" })],
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}
