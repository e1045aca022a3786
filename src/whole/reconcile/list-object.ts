/** Lists one object of a CRM page by page; waits for a CRM that asks for pauses or is away. */
import { setTimeout as sleep } from "node:timers/promises";
import { TryLater } from "../../base/user-error.ts";
import type { CrmRecords, ObjectRecords } from "../../intake/crm/connector.ts";
import type { ListedPage, NotListed } from "../../intake/crm/record-lister.ts";
import { withRelated } from "../../intake/crm/related.ts";
import type { RecordApi } from "../../intake/crm/record-reader.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { retryDelay } from "../../core/sync/retry.ts";
import type { ListingFile, ObjectProgress } from "./listing-file.ts";

/** After so many failures in a row the listing ends; the same command continues it. */
const TRIES = 6;

/** A CRM may ask for pauses of so long in a row, ms; longer ones end the listing. */
const MOST_PAUSED_MS = 15 * 60_000;

/** After so many pages in a row without a new record, a list is taken for one that does not end. */
const MOST_IDLE_PAGES = 10;

/** Records may be deleted in the CRM while it is listed: this part of them may be missing. */
const DELETED_SHARE = 0.001;

export interface ObjectToList {
  readonly crm: string;
  readonly object: string;
  /** Names that the mapping reads, and what is read together with the records. */
  readonly mapping: Pick<Mapping, "reads" | "relations">;
  readonly open: CrmRecords["open"];
  readonly api: RecordApi;
  readonly file: ListingFile;
  readonly retryBaseMs: number;
  /** How many requests were sent so far. */
  readonly requests: () => number;
  readonly onPage: () => void;
}

/** @throws TryLater when it cannot be listed. */
export async function listObject(list: ObjectToList): Promise<ObjectProgress> {
  const known = list.file.progress(list.object);
  const progress = known.isComplete ? known : await listPages(list, known);
  requireAll(list, progress);
  return progress;
}

async function listPages(list: ObjectToList, from: ObjectProgress): Promise<ObjectProgress> {
  const { api, file, mapping, object } = list;
  let progress = from;
  const all = await patiently(list, () => list.open(api, object, mapping.reads));
  if (all.kind !== "records") throw failure(list, all);
  while (!progress.isComplete) {
    const { cursor, restarts } = progress;
    const page = await patiently(list, () => pageOf(list, all, cursor));
    if (page.kind === "page") {
      progress = await file.keepPage(object, page, list.requests());
      requireProgress(list, progress);
      list.onPage();
      continue;
    }
    // The CRM may not know the cursor any more: the list begins again, at once only the first time.
    const isRefused = page.kind === "client_error" || page.kind === "not_found";
    const isDenied = "isDenied" in page;
    if (!isRefused || isDenied || cursor === undefined) throw failure(list, page);
    file.restart(object);
    if (restarts > 0) throw failure(list, page);
    progress = file.progress(object);
  }
  return progress;
}

/** A page whose records have those that belong to them. */
async function pageOf(
  { api, crm, mapping, object }: ObjectToList,
  all: ObjectRecords,
  cursor: string | undefined,
): Promise<ListedPage | NotListed> {
  const page = await all.list(cursor);
  if (page.kind !== "page") return page;
  const records = await withRelated(api, crm, object, page.records, mapping);
  return "kind" in records ? records : { ...page, records };
}

function requireProgress({ crm, object, file }: ObjectToList, { idlePages }: ObjectProgress): void {
  if (idlePages < MOST_IDLE_PAGES) return;
  file.restart(object);
  throw new TryLater(
    `${crm} lists the same page of ${object} again and again. Nothing was sent. The same command lists ${object} from the beginning`,
  );
}

/** A list that ends early would make relations of the missing records look as if they were not in the CRM. */
function requireAll(
  { crm, object, file }: ObjectToList,
  { records, total = 0 }: ObjectProgress,
): void {
  if (total - records <= total * DELETED_SHARE) return;
  file.restart(object);
  throw new TryLater(
    `${crm} says that it has ${total} ${object}, and has listed ${records}. Nothing was sent. The same command lists ${object} from the beginning`,
  );
}

/**
 * Repeats a request while the CRM asks for a pause or cannot be reached, and once when it is refused:
 * a token that has expired is then replaced.
 * @throws TryLater when it took too long.
 */
async function patiently<Wanted extends { readonly kind: "records" | "page" }>(
  list: ObjectToList,
  ask: () => Promise<Wanted | NotListed>,
): Promise<Wanted | NotListed> {
  let failures = 0;
  let refusals = 0;
  let pausedMs = 0;
  for (;;) {
    const answer = await ask();
    switch (answer.kind) {
      case "records":
      case "page":
        return answer;
      case "throttled":
        pausedMs += answer.retryAfterMs;
        if (pausedMs > MOST_PAUSED_MS) throw failure(list, answer);
        await sleep(answer.retryAfterMs);
        break;
      case "unavailable":
        failures += 1;
        if (failures === TRIES) throw failure(list, answer);
        await sleep(retryDelay(failures, list.retryBaseMs, Math.random));
        break;
      case "not_found":
      case "client_error":
      case "not_a_list":
        refusals += 1;
        if (refusals === 2) return answer;
    }
  }
}

function failure({ crm, file, object }: ObjectToList, answer: NotListed): TryLater {
  const { cursor, records } = file.progress(object);
  const next =
    cursor === undefined
      ? `lists ${object} from the beginning`
      : `continues after the ${records} records of ${object} that were listed`;
  return new TryLater(
    `${crm} cannot be listed: ${object}: ${whyOf(answer)}. Nothing was sent. The same command ${next}`,
  );
}

function whyOf(answer: NotListed): string {
  switch (answer.kind) {
    case "not_found":
      return "HTTP 404: it has no such object, or its credentials may not read it. --object names the one to list, if the mapping has objects of other sources";
    case "throttled":
      return `it allows no request for ${Math.ceil(answer.retryAfterMs / 60_000)} minutes`;
    case "client_error":
    case "unavailable":
    case "not_a_list":
      return answer.reason;
  }
}
