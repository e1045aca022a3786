/** Lists the service page by page into the work file; a crash continues at the page that was due. */
import { crmsync } from "../../base/command.ts";
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { TryLater, UserError } from "../../base/user-error.ts";
import type { Permit } from "../../core/quota/permit.ts";
import type { ServiceClient } from "../../core/service/client.ts";
import { listPages, type Next, type PageAsked } from "../../core/service/list-pages.ts";
import type { Page, Relation, Reply } from "../../core/service/reply.ts";
import type { Ledger } from "../../core/state/ledger.ts";
import type { FingerprintOf } from "../../core/sync/fingerprint.ts";
import { hasValue, keepsWith, type Keeps } from "../../core/sync/keeps.ts";
import { rowOf, type LedgerRow } from "../../core/sync/ledger-row.ts";
import { retryDelay } from "../../core/sync/retry.ts";
import { changedFields, compare, digestsOf, emptiedIn } from "./compare.ts";
import { fieldsIn, listOf, type RecordRow, type WorkFile } from "./work-file.ts";
import { reasonOf } from "../../core/sync/service-reply.ts";

/** After so many failures in a row the listing ends; the next command continues it. */
const TRIES = 5;

/** How often a listing begins again because its cursor was refused: once, it may have expired. */
const RESTARTS = 1;

/** An incomplete listing that a crash left behind is continued for so long, ms. */
const INCOMPLETE_MS = 86_400_000;
/** A complete one is used for so long, ms. */
const COMPLETE_MS = 600_000;

export interface Listed {
  /** When the first page was requested, ms. */
  readonly startedAt: number;
  /** Relations at the service, and those that are not terminated. */
  readonly relations: number;
  readonly active: number;
  readonly requests: number;
}

interface Progress extends Listed {
  /** Name of the token that it is listed with. */
  readonly token: string;
  /** Where the next page begins; undefined at the start, and at the end. */
  readonly cursor?: string | undefined;
  readonly isComplete: boolean;
}

export interface ServiceToList {
  readonly client: Pick<ServiceClient, "listPage">;
  readonly acquire: () => Promise<Permit>;
  /** Name of the token that the client sends. */
  readonly token: string;
  readonly ledger: Pick<Ledger, "heal">;
  readonly fingerprintOf: FingerprintOf;
  /** The kept fields of the mapping. */
  readonly keeps: Keeps;
  readonly now: () => number;
  readonly retryBaseMs: number;
  /** Keeps a relation's values for the report; undefined: no values are kept. */
  readonly keepBody: ((crmCode: string, relation: Relation) => Promise<string>) | undefined;
}

/** @throws UserError when the service cannot be listed. */
export async function listService(
  service: ServiceToList,
  work: WorkFile,
  onProgress: (listed: Listed) => void,
): Promise<Listed> {
  let progress = (work.progress("listing") as Progress | undefined) ?? beginning(service);
  let failures = 0;
  let restarts = 0;
  const take = async (reply: Reply<"list">, asked: PageAsked): Promise<Next<never>> => {
    progress = { ...progress, requests: progress.requests + 1 };
    if (reply.kind === "page") {
      failures = 0;
      if (asked.isEndless) {
        restart(beginning(service), work);
        throw new UserError("the service lists the same page again and again; nothing was sent");
      }
      progress = await keepPage(reply, asked.fresh, progress, asked.askedAt, service, work);
      onProgress(progress);
      return "next";
    }
    onProgress(progress);
    // The pause that a 429 asks for is shared: the next permit waits for its end.
    if (reply.kind === "throttled") return "again";
    // The cursor may have expired: begin again.
    const isExpired = reply.kind === "rejected" && asked.cursor !== undefined;
    if (isExpired) {
      if (restarts === RESTARTS) throw failure(reply, progress);
      restarts += 1;
      progress = { ...beginning(service), requests: progress.requests };
      restart(progress, work);
    }
    failures += 1;
    if (failures === TRIES || reply.kind === "denied") throw failure(reply, progress);
    await sleep(retryDelay(failures, service.retryBaseMs, Math.random));
    return isExpired ? "start" : "again";
  };
  onProgress(progress);
  if (!progress.isComplete) await listPages(service, progress.cursor, take);
  return progress;
}

const beginning = ({ now, token }: Pick<ServiceToList, "now" | "token">): Progress => {
  return { startedAt: now(), token, relations: 0, active: 0, requests: 0, isComplete: false };
};

function failure(reply: Exclude<Reply<"list">, Page>, { relations }: Progress): TryLater {
  const why =
    reply.kind === "denied"
      ? `it denies access because of the ${reply.cause}: see ${crmsync`doctor`}`
      : reply.kind === "unavailable"
        ? `it is unavailable (${reasonOf(reply)})`
        : `it answered ${reply.kind === "rejected" ? reply.status : 429}`;
  return new TryLater(
    `the service cannot be listed: ${why}. Nothing was sent. The same command continues after the ${relations} relations that were listed`,
  );
}

/** Forgets a listing that is too old to be believed, or was made with another token: perhaps another tenant's. */
export function forgetOldListing(
  work: WorkFile,
  service: Pick<ServiceToList, "now" | "token">,
): void {
  const listing = work.progress("listing") as Progress | undefined;
  if (listing === undefined) return;
  const maxAgeMs = listing.isComplete ? COMPLETE_MS : INCOMPLETE_MS;
  const isOld = service.now() - listing.startedAt > maxAgeMs;
  if (isOld || listing.token !== service.token) restart(beginning(service), work);
}

function restart(progress: Progress, work: WorkFile): void {
  work.together(() => {
    work.run(
      `UPDATE records SET was = NULL, fields = NULL, body = NULL,
         kind = CASE WHEN kind IN ('duplicate', 'invalid', 'unmappable', 'ignored') THEN kind END
       WHERE was IS NOT NULL`,
    );
    work.run("DELETE FROM records WHERE position IS NULL");
    work.run("DELETE FROM listed");
    work.note("listing", progress);
  });
}

async function keepPage(
  { relations, nextCursor }: Page,
  fresh: ReadonlySet<string>,
  before: Progress,
  askedAt: number,
  service: ServiceToList,
  work: WorkFile,
): Promise<Progress> {
  const rows = new Map<string, { relation: Relation; row: LedgerRow; body: string | undefined }>();
  for (const relation of relations) {
    const { crmCode } = relation;
    const row = rowOf(relation, askedAt, service.fingerprintOf);
    rows.set(crmCode, { relation, row, body: await service.keepBody?.(crmCode, relation) });
  }
  await service.ledger.heal(
    [...rows].map(([crmCode, { row }]) => [crmCode, row] as const),
    askedAt,
  );
  const seed = (work.progress("seed") as string | undefined) ?? "";
  const order = (work.progress("order") as string | undefined) ?? "";
  return work.together(() => {
    let { active, relations: listed } = before;
    for (const [code, { relation, row, body }] of rows) {
      work.run("INSERT OR REPLACE INTO listed VALUES (?, ?)", code, statusOf(row));
      const context = {
        seed,
        order,
        body,
        keeps: service.keeps,
        fingerprintOf: service.fingerprintOf,
      };
      // An earlier page may have this relation, too: it counts once, because the guards go by these numbers.
      if (!keepRelation(work, code, relation, row, context) || !fresh.has(code)) continue;
      listed += 1;
      if (!row.terminated) active += 1;
    }
    const isComplete = nextCursor === undefined;
    const progress = { ...before, relations: listed, active, cursor: nextCursor, isComplete };
    work.note("listing", progress);
    return progress;
  });
}

const statusOf = ({ terminated }: LedgerRow): string => (terminated ? "terminated" : "active");

/** SHA-256 of the service's list: one line `<crmCode> TAB <status>` for each relation, in the order of their bytes. */
export function hashOfList(work: WorkFile): string {
  const hash = createHash("sha256");
  const rows = work.all<{ code: string; status: string }>("SELECT * FROM listed ORDER BY code");
  for (const { code, status } of rows) hash.update(`${code}\t${status}\n`);
  return `sha256:${hash.digest("hex")}`;
}

/**
 * @returns false when an earlier page had the relation, also one that another process has listed. A terminated
 *   relation that the snapshot lacks is not kept.
 */
function keepRelation(
  work: WorkFile,
  code: string,
  relation: Relation,
  row: LedgerRow,
  { body, fingerprintOf, keeps, order, seed }: RelationContext,
): boolean {
  const record = work.get("SELECT * FROM records WHERE code = ?", code) as RecordRow | undefined;
  const was = row.fingerprint ?? "";
  if (record === undefined) {
    if (row.terminated) return true;
    return work.add("records", {
      code,
      ord: order,
      status: "terminated",
      ends: 1,
      was,
      variant: row.variant ?? null,
    });
  }
  if (record.position === null) return false;
  const isNew = record.was === null;
  if (FIXED.has(record.kind ?? "")) {
    work.run("UPDATE records SET was = ? WHERE code = ?", was, code);
    return isNew;
  }
  const lacks = fieldsIn(record.lacks);
  const differs =
    lacks.length === 0 && record.unclear === null
      ? []
      : fieldsOf(record, relation, row, seed, keeps).filter((field) => hasValue(relation[field]));
  const isLacking = differs.some((field) => lacks.includes(field));
  const { notUnderstood, ...wanted } = wantedOf(isLacking ? withoutLacks(record) : record);
  // The service keeps what it has in a field that was not understood, or that the snapshot does not carry.
  const fingerprint =
    notUnderstood.length === 0 ? row.fingerprint : fingerprintOf(relation, notUnderstood);
  // A status that is not known ends and restores nothing.
  const ends = notUnderstood.includes("relationStatus") ? row.terminated : wanted.ends;
  const compared = compare({ ...wanted, ends }, { ...row, fingerprint });
  const all = keepsWith(keeps, wanted.variant, notUnderstood);
  const fields =
    compared === "equal" ? null : JSON.stringify(fieldsOf(record, relation, row, seed, all));
  const isEmptied = compared === "different" && emptiedIn({ ...record, fields }).length > 0;
  const kind = isEmptied ? "emptied" : compared;
  work.run(
    `UPDATE records SET kind = ?, was = ?, fields = ?, body = ?, fingerprint = ?, unclear = ?, kept = ?
     WHERE code = ?`,
    kind,
    was,
    fields,
    kind === "equal" ? null : (body ?? null),
    wanted.fingerprint ?? null,
    listOf(notUnderstood),
    listOf(differs.filter((field) => notUnderstood.includes(field))),
    code,
  );
  return isNew;
}

interface RelationContext extends Pick<ServiceToList, "fingerprintOf" | "keeps"> {
  readonly seed: string;
  /** Of an event of the time when the snapshot was taken. */
  readonly order: string;
  readonly body: string | undefined;
}

/** Kinds that no comparison changes. */
const FIXED: ReadonlySet<string> = new Set(["duplicate", "invalid", "unmappable", "ignored"]);

/** What is compared, and sent, if the relation has a value in a field that the snapshot does not carry. */
function withoutLacks(record: RecordRow): RecordRow {
  const unclear = new Set([...fieldsIn(record.unclear), ...fieldsIn(record.lacks)]);
  return { ...record, fingerprint: record.partial, unclear: listOf([...unclear]) };
}

export const wantedOf = ({ status, fingerprint, unclear, variant, ends }: RecordRow) => ({
  status,
  fingerprint: fingerprint ?? undefined,
  notUnderstood: fieldsIn(unclear),
  variant: variant ?? undefined,
  ends: ends === 1,
});

function fieldsOf(
  { digests, variant }: RecordRow,
  relation: Relation,
  row: LedgerRow,
  seed: string,
  keeps: Keeps,
): string[] {
  // A termination needs no fields of the record.
  if (digests === null || variant === null) return ["relationStatus"];
  if (row.variant !== variant) return ["type"];
  return changedFields(row.variant, digestsOf(relation, row.variant, seed), digests, keeps);
}
