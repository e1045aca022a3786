/** A snapshot from the CRM itself: all records of the objects that the mapping names, by its API. */
import { createHash } from "node:crypto";
import { existsSync, renameSync } from "node:fs";
import { join, resolve } from "node:path";
import { proxyOf, settingOf, type Config } from "../../base/config.ts";
import { createCrmApi, politeApi } from "../../intake/crm/api-client.ts";
import { CRMS } from "../../intake/crm/connectors.ts";
import type { CrmSource } from "../../intake/crm/connector.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { UserError } from "../../base/user-error.ts";
import type { Reconciliations } from "../../core/state/reconciliations.ts";
import type { RedisClock } from "../../core/state/redis-clock.ts";
import type { Sealing } from "../../core/state/sealing.ts";
import { listObject } from "./list-object.ts";
import { ListingFile } from "./listing-file.ts";
import { removeOldListings, unusedListing } from "./left-overs.ts";
import { openSnapshot, type OpenSnapshot } from "./open-snapshot.ts";
import type { OpenPlan } from "./plan-file.ts";

/** The CRMs that can be listed. */
export const LISTED_CRMS: readonly string[] = CRMS.map(({ name }) => name);

/**
 * A listing counts as taken so much before it began, ms: the CRM dates a change before the change can
 * be listed, and its clock may be behind ours.
 */
const MARGIN_MS = 30_000;

const TIMEOUT_MS = 60_000;
const MAX_BYTES = 64 * 1024 * 1024;

/** The part of a session that a listing needs. */
export interface ListingSession {
  readonly config: Config;
  /** Where the listings are. */
  readonly dir: string;
  readonly mapping: Pick<Mapping, "name" | "objects" | "reads" | "relations">;
  readonly stores: {
    readonly clock: Pick<RedisClock, "now">;
    readonly reconciliations: Pick<Reconciliations, "progress">;
    readonly sealing: Pick<Sealing, "keyId" | "open" | "seal">;
  };
}

export interface CrmListingOptions {
  /** Lists this object only, instead of those that the mapping names. */
  readonly object?: string | undefined;
  /** Called after each page. */
  readonly onProgress?: (progress: CrmListingProgress) => void;
}

export interface CrmListingProgress {
  /** Records of each object so far. */
  readonly objects: Readonly<Record<string, number>>;
  /** Requests to the CRM, those of earlier runs of this listing included. */
  readonly requests: number;
}

/**
 * Lists the CRM, or continues a listing that was interrupted within the last hours. The caller closes
 * the snapshot; its file is removed by `listing.remove`, or some time after it was last usable.
 * @throws UserError when it cannot be listed, or has no record.
 */
export async function listCrm(
  session: ListingSession,
  crm: string,
  options: CrmListingOptions = {},
): Promise<OpenSnapshot> {
  const source = listedCrm(session.config, crm);
  const objects = objectsOf(session, crm, options.object);
  await removeOldListings(session);
  const name = `listing-${crm}-${identityOf(session, source, objects)}`;
  const complete = unusedListing(session.dir, name);
  if (complete !== undefined) return openListing(session, crm, complete, objects);
  const part = join(session.dir, `${name}.sqlite`);
  const file = new ListingFile(part, session.stores.sealing);
  let whole: string;
  try {
    const { takenAt } = file.begin() ?? { takenAt: session.stores.clock.now() - MARGIN_MS };
    file.noteBegin({ takenAt });
    await listObjects(session, { source, objects, file, options });
    whole = join(session.dir, `${name}-${Math.round(takenAt)}.sqlite`);
  } finally {
    file.close();
  }
  renameSync(part, whole);
  return openListing(session, crm, whole, objects);
}

interface Listing {
  readonly source: CrmSource;
  readonly objects: readonly string[];
  readonly file: ListingFile;
  readonly options: CrmListingOptions;
}

async function listObjects({ config, mapping }: ListingSession, listing: Listing): Promise<void> {
  const { file, objects, options, source } = listing;
  const { name: crm, open, pauseMs } = source;
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    proxy: proxyOf(config),
  });
  let requests = file.requests();
  const polite = politeApi(api, {
    pauseMs,
    setting: (name) => settingOf(config, name)?.() ?? "",
    onRequest: () => (requests += 1),
  });
  const report = () =>
    options.onProgress?.({
      objects: Object.fromEntries(objects.map((object) => [object, file.progress(object).records])),
      requests,
    });
  try {
    let records = 0;
    for (const object of objects) {
      const listed = await listObject({
        crm,
        object,
        open,
        file,
        api: polite,
        mapping,
        retryBaseMs: config.RETRY_BASE_MS,
        requests: () => requests,
        onPage: report,
      });
      records += listed.records;
    }
    if (records > 0) return;
    for (const object of objects) file.restart(object);
    throw new UserError(
      `${crm} lists no ${objects.join(" and no ")}: there is nothing to compare, and an empty list terminates nothing. Its credentials may not be allowed to read them`,
    );
  } finally {
    await api.close();
  }
}

/**
 * Opens a listing that is complete.
 * @param objects those that were listed; undefined: not known any more.
 * @throws UserError when it is not there any more, or another process works with it.
 */
export function openListing(
  { dir, stores }: Pick<ListingSession, "dir" | "stores">,
  crm: string,
  path: string,
  objects: readonly string[] = [],
): OpenSnapshot {
  if (!existsSync(path)) {
    throw new UserError(
      `the records that ${crm} has listed are not in ${dir} any more: they are kept until the plan was used, or cannot be used any more. Make a new plan`,
    );
  }
  const file = new ListingFile(path, stores.sealing);
  const name = `the list of ${crm}`;
  let isOpen = true;
  const end = (how: "close" | "remove") => {
    if (isOpen) file[how]();
    isOpen = false;
  };
  return {
    name,
    file: path,
    path: resolve(path),
    scan: file.scan(),
    takenAt: file.begin()?.takenAt ?? 0,
    items: (onBytes) => file.items(name, onBytes),
    listing: {
      crm,
      requests: file.requests(),
      objects: Object.fromEntries(objects.map((object) => [object, file.progress(object).records])),
      keepFor: (id, until) => file.notePlan({ id, until }),
      remove: () => end("remove"),
    },
    isUnchanged: async () => true,
    close: () => end("close"),
  };
}

/** The snapshot that a plan was made for. @param name of its file, if it was moved. @throws UserError */
export async function openSnapshotOf(
  session: Pick<ListingSession, "dir" | "stores">,
  { header: { snapshot } }: OpenPlan,
  name?: string,
): Promise<OpenSnapshot> {
  const { encoding, from, reading } = snapshot;
  const file = name ?? snapshot.file;
  if (file === undefined) {
    throw new UserError(
      "the snapshot came from standard input: name its file, or - to give it again",
    );
  }
  return from !== undefined && name === undefined
    ? openListing(session, from, file)
    : { ...(await openSnapshot(file, session.dir, encoding)), reading };
}

export function listedCrm(config: Config, crm: string): CrmSource {
  const source = CRMS.find(({ name }) => name === crm);
  if (source === undefined) {
    throw new UserError(`${crm} cannot be listed; these can: ${LISTED_CRMS.join(", ")}`);
  }
  const missing = source.needs.filter((name) => settingOf(config, name) === undefined);
  if (missing.length === 0) return source;
  throw new UserError(
    `to list ${crm}, set ${missing.join(", ")} (docs/webhooks.md says what they are)`,
  );
}

function objectsOf({ mapping }: ListingSession, crm: string, object: string | undefined) {
  const objects = object === undefined ? mapping.objects : [object];
  if (objects.length === 0 || mapping.reads.size === 0) {
    throw new UserError(
      `the mapping ${mapping.name} does not name the objects of ${crm} and their fields: set MAPPING as the daemon has it, for instance to the preset ${crm}. With a mapping module, reconcile an export`,
    );
  }
  return objects;
}

/**
 * A later listing of the same identity continues this one. The secrets are a part of the identity, as a
 * hash: where all customers of a CRM share its address, only they tell whose records it lists.
 */
function identityOf(
  { config, mapping, stores }: ListingSession,
  { needs }: CrmSource,
  objects: readonly string[],
): string {
  const settings = needs.map((name) => [name, settingOf(config, name)?.()]);
  const fields = [...mapping.reads].toSorted();
  const parts = [
    config.QUEUE_PREFIX,
    settings,
    objects,
    fields,
    mapping.relations ?? [],
    stores.sealing.keyId,
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}
