/**
 * Asks the CRMs of PULL_FROM for changes, for those whose webhooks get lost or cannot reach us. Of all processes one pulls a
 * CRM at a time.
 */
import { randomUUID } from "node:crypto";
import { proxyOf, pullEveryMs } from "../src/base/config.ts";
import { createCrmApi, politeApi } from "../src/intake/crm/api-client.ts";
import { checkableCrms, refreshCrmChecks } from "../src/intake/crm/check-crms.ts";
import { backoffMs } from "../src/core/event/backoff.ts";
import type { RecordApi } from "../src/intake/crm/record-reader.ts";
import type { Mapping } from "../src/intake/mapping/mapping.ts";
import {
  PullFailed,
  pullObject,
  type ObjectToPull,
  type PullEnd,
} from "../src/intake/pull/pull-object.ts";
import { pulledCrms, settingFor, type PulledCrm } from "../src/intake/pull/pulled-crms.ts";
import { MemoryGate } from "../src/core/state/redis-health.ts";
import { type PulledObject, type PullState, type PullWait } from "../src/core/state/pulls.ts";
import { needsRelated } from "../src/core/sync/mapped.ts";
import type { ChoreWork, Step } from "./chores.ts";
import type { Uses } from "./parts.ts";

const TIMEOUT_MS = 60_000;
const MAX_BYTES = 64 * 1024 * 1024;

/** CRMs tell deletions for two weeks and more (Salesforce's recycle bin: 15 days): after a longer break some are missed, ms. */
const GAP_MS = 14 * 86_400_000;

/** A listing waits while so many events wait in the inbox. */
const ENOUGH_EVENTS = 5000;

/** The pause after a first failure; it doubles up to PULL_EVERY, ms. */
const FIRST_PAUSE_MS = 30_000;

/** After this long each process that runs has said what it pulls, and a killed one counts as ended, ms. */
const END_PULLS_MS = 60_000;

export type PullParts = Uses<
  | "clock"
  | "config"
  | "heartbeats"
  | "inbox"
  | "keyring"
  | "log"
  | "mapping"
  | "mappingGate"
  | "metrics"
  | "pulls"
  | "rarely"
  | "recordName"
  | "redis"
  | "thinEvents"
>;

/** For each CRM: one that is slow delays no other. @param signal ends its requests */
export function pullChanges(parts: PullParts, signal: AbortSignal): ChoreWork[] {
  const { clock, config, mapping, mappingGate, pulls } = parts;
  setTimeout(() => void endPulls(parts).catch(() => {}), END_PULLS_MS).unref();
  const owner = randomUUID();
  return pulledCrms(config, mapping).map((crm) => {
    const lease = pulls.leaseOf(crm.name);
    const client = createCrmApi({
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      signal,
      wrapsLists: true,
      proxy: proxyOf(config),
      now: () => clock.now(),
    });
    const api = politeApi(client, { ...crm, setting: settingFor(config), signal });
    return {
      about: { crm: crm.name },
      async run() {
        // It reads what the mapping says, and its cursor moves on.
        if (!(await mappingGate.isOpen()) || !(await isDue(parts, crm.name))) return;
        await lease.whileHeld(owner, async (lost) => {
          // Another process may have done it before this one got the lease.
          if (!(await isDue(parts, crm.name))) return;
          await pullCrm(parts, api, crm, AbortSignal.any([signal, lost]));
        });
      },
      close: () => client.close(),
    };
  });
}

/** For how long the check of a CRM is fresh, ms. */
const CHECKED_MS = 900_000;

/** Checks the CRMs; one process does it for all. */
export function checkCrms(parts: Uses<"clock" | "config" | "crmChecks" | "mapping">): Step {
  const { config, crmChecks, mapping } = parts;
  // Also where this process has no credentials: intake keeps the fields whose type has changed.
  return checkableCrms(config).length === 0
    ? () => crmChecks.current()
    : () => refreshCrmChecks(parts, mapping, CHECKED_MS);
}

/** Forgets the CRMs that no running process pulls any more: they would stay overdue. */
async function endPulls({ heartbeats, pulls }: Uses<"heartbeats" | "pulls">): Promise<void> {
  const running = await heartbeats.running();
  const settings = running.map((one) => String(one.settings?.["PULL_FROM"] ?? ""));
  await pulls.keepOnly(settings.flatMap((names) => names.split(",")));
}

async function isDue({ clock, pulls }: Uses<"clock" | "pulls">, crm: string): Promise<boolean> {
  const state = await pulls.state(crm);
  const now = clock.now();
  return (
    isRoundDue(state, now) || Object.values(state?.waits ?? {}).some((one) => isOver(one, now))
  );
}

/** Whether all objects are to be pulled. */
const isRoundDue = (state: PullState | undefined, now: number): boolean =>
  state === undefined || isOver({ at: state.nextAt - state.everyMs, pauseMs: state.everyMs }, now);

/** A pause that begins in the future was noted by a clock that was ahead. */
const isOver = ({ at, pauseMs }: Pick<PullWait, "at" | "pauseMs">, now: number): boolean =>
  now >= at + pauseMs || now < at;

/** Pulls the objects of one CRM that are due, and keeps how that went. @throws what is not the CRM's fault. */
async function pullCrm(
  parts: PullParts,
  api: RecordApi,
  crm: PulledCrm,
  signal: AbortSignal,
): Promise<void> {
  const { clock, config, log, mapping, pulls, rarely } = parts;
  const began = clock.now();
  const everyMs = pullEveryMs(config.PULL_EVERY);
  const before = await pulls.state(crm.name);
  const until = performance.now() + everyMs;
  const since = Math.min(before?.since ?? began, began);
  let state: PullState = { objects: {}, nextAt: 0, ...before, since, everyMs };
  const keep = async (next: Partial<PullState>) => {
    signal.throwIfAborted();
    state = { ...state, ...next };
    await pulls.keep(crm.name, state);
  };
  // For what was missed until `lost.at` there is a finding and a listing already, which may take many pulls.
  const told = Math.max(state.at ?? began, state.lost?.at ?? 0);
  const lose = (at: number) => keep({ lost: { at, since: Math.min(state.at ?? began, began) } });
  if (began - told > GAP_MS) {
    state = { ...state, objects: {} };
    await lose(began);
  }
  const objects = [...objectsOf(mapping)];
  const isRound = isRoundDue(before, began);
  const waits = new Map<string, PullWait>(
    Object.entries(state.waits ?? {}).filter(([object]) => objects.includes(object)),
  );
  const ends: PullEnd[] = [];
  let why: string | undefined;
  for (const object of objects) {
    const wait = waits.get(object);
    if (wait === undefined ? !isRound : !isOver(wait, began)) continue;
    const place = placeOf(state.objects[object]);
    const pull = await objectToPull(parts, api, crm, object, { signal, until }, async (done) =>
      keep({ objects: { ...state.objects, [object]: done } }),
    );
    try {
      const end = await pullObject(pull, state.objects[object]);
      waits.delete(object);
      ends.push(end);
      if (end !== "cursor_lost") continue;
      log.warn({ crm: crm.name }, "pull.cursor_lost");
      await lose(clock.now());
    } catch (error) {
      if (!(error instanceof PullFailed) || signal.aborted) throw error;
      // What fails for one object need not fail for the next one.
      why ??= error.message;
      const hasMoved = placeOf(state.objects[object]) !== place;
      const times = hasMoved ? 1 : (wait?.times ?? 0) + 1;
      const ownMs = backoffMs(times, { firstMs: FIRST_PAUSE_MS, longestMs: everyMs });
      const pauseMs = Math.max(ownMs, error.pauseMs);
      waits.set(object, { at: clock.now(), pauseMs, times });
    }
  }
  const isNone = isRound && waits.size === 0 && ends.every((end) => end === "unknown_object");
  if (isNone) why = `${objects.join(", ")}: ${NO_OBJECT}`;
  if (why !== undefined) rarely.warn({ crm: crm.name, why }, "pull.not_answered", crm.name);
  const { failure, ...rest } = state;
  const isFailed = isNone || waits.size > 0;
  const isListing = ends.some((end) => end === "listing" || end === "cursor_lost");
  const round = isRound ? began : state.nextAt - everyMs;
  state = rest;
  await keep({
    ...(isFailed && {
      failure: { since: failure?.since ?? began, why: why ?? failure?.why ?? "" },
    }),
    ...(!isFailed && !isListing && { at: round }),
    nextAt: isListing ? 0 : round + everyMs,
    waits: Object.fromEntries(waits),
    skewMs: api.skewMs(),
  });
}

const placeOf = (known: PulledObject | undefined): string =>
  JSON.stringify(known?.listing ?? known?.cursor);

/** Also the parts of others: their changes are changes of their owners. */
const objectsOf = ({ objects, relations = [] }: Mapping): Iterable<string> => {
  const parts = relations.filter(({ isPart }) => isPart).map(({ object }) => object);
  return new Set([...objects, ...parts]);
};

const NO_OBJECT =
  "the CRM has none of the objects that the mapping names, or its credentials may not read them";

async function objectToPull(
  parts: PullParts,
  api: RecordApi,
  { name: crm, open, reader }: PulledCrm,
  object: string,
  { signal, until }: { readonly signal: AbortSignal; readonly until: number },
  keep: ObjectToPull["keep"],
): Promise<ObjectToPull> {
  const { clock, inbox, keyring, mapping, metrics, pulls, rarely, recordName, redis } = parts;
  const { thinEvents } = parts;
  const memory = new MemoryGate(redis);
  return {
    crm,
    object,
    open,
    reader,
    api,
    fields: mapping.reads,
    contentOf: await keyring.contentHash(),
    // What belongs to it is read with it.
    isThin: reader !== undefined && needsRelated(mapping, object),
    relations: mapping.relations ?? [],
    notePart: (part, owner) =>
      void thinEvents.noteOwners({ crm, subject: part }, [owner]).catch(() => {}),
    noteUndated(recordIds) {
      if (recordIds.length === 0) return;
      metrics.pulledChanges.inc({ crm, result: "undated" }, recordIds.length);
      const record = recordName(`${object}/${recordIds[0]}`);
      rarely.warn({ crm, record, records: recordIds.length }, "pull.undated", `${crm} ${object}`);
    },
    ids: pulls.idsOf(crm, object),
    now: () => clock.now(),
    keep,
    async push(events) {
      signal.throwIfAborted();
      if (events.length === 0) return;
      if (await memory.isClosed()) throw new PullFailed(object, REDIS_FULL);
      await inbox.push(events, clock.now());
    },
    async mayList() {
      signal.throwIfAborted();
      if (performance.now() > until) return false;
      return (await inbox.queue.getWaitingCount()) < ENOUGH_EVENTS;
    },
  };
}

const REDIS_FULL = { kind: "unavailable", reason: "Redis is nearly full" } as const;
