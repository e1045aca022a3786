/** Erases what Redis holds about one person, while everything runs. */
import { setTimeout as sleep } from "node:timers/promises";
import { readJobs } from "../../core/event/job-data.ts";
import type { Stores } from "../../operate/status/stores.ts";
import {
  type Counts,
  TraceFinder,
  type Traces,
  TRACES,
  type Piece,
  eraseRecord,
  eventNames,
} from "./find-traces.ts";
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { counted } from "../../base/counted.ts";
import type { ActBy } from "../../core/state/audit-acts.ts";
import type { Redis } from "ioredis";

/** Pause before the next search, while a job or a request is under way, ms. */
const AGAIN_MS = 250;

/** A change moves on between two reads: only what two searches do not find is gone. */
const EMPTY_SEARCHES = 2;

/**
 * @param first what was found before.
 * @param withinMs after which it gives up.
 * @param onWait called once, when something must end first that is under way.
 * @returns also what is left: a request was under way for too long, or events keep coming.
 */
export async function eraseTraces(
  stores: Stores,
  finder: TraceFinder,
  first: Traces,
  { withinMs, onWait }: { readonly withinMs: number; readonly onWait: () => void },
) {
  const deadline = performance.now() + withinMs;
  const erased: Counts = {};
  let hasWaited = false;
  let left = first;
  let searches = 0;
  while (searches < EMPTY_SEARCHES && performance.now() < deadline) {
    const done = await eraseOnce(stores, left, erased);
    if (isEmpty(left)) searches += 1;
    else if (!done) {
      if (!hasWaited) onWait();
      hasWaited = true;
      await sleep(AGAIN_MS);
    }
    left = await finder.find();
  }
  await eraseStreams(stores);
  await stores.thinEvents.forgetOwners(finder.subjects);
  await stores.doubles.forgetEnded();
  return { erased, left };
}

export const isEmpty = ({ counts }: Traces): boolean => Object.keys(counts).length === 0;

/** @returns whether anything was erased; the rest is under way. */
async function eraseOnce(
  stores: Stores,
  { pieces, crmCodes }: Traces,
  erased: Counts,
): Promise<boolean> {
  let done = false;
  const count = (kind: keyof Counts) => {
    erased[kind] = (erased[kind] ?? 0) + 1;
    done = true;
  };
  const erasePieces = async (isWanted: (piece: Piece) => boolean) => {
    for (const piece of pieces.filter(isWanted))
      if (await erasePiece(stores, piece)) count(piece.place);
  };
  // Events first: one that is accepted later would bring the rest back.
  await erasePieces((piece) => !tellsNames(piece));
  let isHeld = false;
  for (const crmCode of crmCodes) {
    const traces = await eraseRecord(stores, crmCode);
    for (const kind of traces.found) count(kind);
    isHeld ||= traces.isHeld;
  }
  // Last what tells the crmCode of a record: a command that is stopped while it waits must find it again.
  if (!isHeld) await erasePieces(tellsNames);
  return done;
}

const tellsNames = ({ place }: Piece): boolean => place === "dead" || place === "history";

/** @returns false for a job that runs. */
async function erasePiece(stores: Stores, { place, id }: Piece): Promise<boolean> {
  const { deadLetters, history, inbox, told } = stores;
  if (place === "history") return history.eraseSubject(id);
  if (place === "dead") return deadLetters.drop(id);
  if (place === "told") return told.erase(id);
  if (place === "inbox") return (await inbox.queue.remove(id)) === 1;
  return place === "fetch" && eraseFetch(stores, id);
}

/** @param name of the thin event and of its jobs. */
async function eraseFetch({ keys, redis, thinEvents }: Stores, name: string): Promise<boolean> {
  const { queue } = thinEvents;
  const waiting = await queue.getDeduplicationJobId(name);
  const ids = new Set([waiting]);
  for await (const { deduplicationId, id } of readJobs(queue, ["failed"])) {
    if (deduplicationId === name) ids.add(id ?? "");
  }
  let removed = await redis.hdel(keys.thinEvents, name);
  for (const id of ids) if (id) removed += await queue.remove(id);
  return removed > 0;
}

/** BullMQ writes the names of duplicate jobs into a stream of each queue. Only people look at it. */
async function eraseStreams({ inbox, thinEvents }: Stores): Promise<void> {
  for (const { queue } of [inbox, thinEvents]) await queue.trimEvents(0);
}

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

const CHECK_MS = 200;

/** @returns whether it was rewritten, from what Redis holds now. */
async function rewriteFile(redis: Redis, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  const isBusy = async () => /^aof_rewrite_(in_progress|scheduled):1/m.test(await persistence());
  const persistence = () => redis.info("persistence");
  const wait = async () => {
    while (await isBusy()) {
      if (performance.now() > deadline) return false;
      await sleep(CHECK_MS);
    }
    return true;
  };
  // One that is under way began before.
  while (await wait()) {
    const begun = await redis.bgrewriteaof().then(
      () => true,
      (error: Error) => {
        if (error.message.includes("already in progress")) return false;
        throw error;
      },
    );
    if (begun) return (await wait()) && /^aof_last_bgrewrite_status:ok/m.test(await persistence());
  }
  return false;
}
