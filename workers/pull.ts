/**
 * Asks the CRMs of PULL_FROM for changes, for those whose webhooks get lost or cannot reach us. Of all processes one pulls a
 * CRM at a time.
 */
import { randomUUID } from "node:crypto";
import { proxyOf, pullEveryMs } from "../src/config.ts";
import { createCrmApi, type CrmApi } from "../src/crm/api-client.ts";
import { politeApi } from "../src/crm/polite-api.ts";
import type { Mapping } from "../src/mapping/mapping.ts";
import type { Part } from "../src/ops/shutdown.ts";
import { PullFailed, pullObject, type ObjectToPull } from "../src/pull/pull-object.ts";
import { pulledCrms, settingFor, type PulledCrm } from "../src/pull/pulled-crms.ts";
import { MemoryGate } from "../src/state/redis-health.ts";
import { RENEW_PULL_MS, type PullState } from "../src/state/pulls.ts";
import { needsRelated } from "../src/sync/mapped.ts";
import { startPolling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";

/** How often it is looked whether a pull is due, ms. */
const LOOK_MS = 1000;

const TIMEOUT_MS = 60_000;
const MAX_BYTES = 64 * 1024 * 1024;

/** CRMs tell deletions for two weeks and more (Salesforce's recycle bin: 15 days): after a longer break some are missed, ms. */
const GAP_MS = 14 * 86_400_000;

/** By so much Redis' clock may be set back without a word, ms. */
const CLOCK_MS = 60_000;

/** A cursor begins so much before the clock that has noted it: what is further ahead would hide changes, ms. */
const AHEAD_MS = 300_000;

/** A listing waits while so many events wait in the inbox. */
const ENOUGH_EVENTS = 5000;

/** After this long each process that runs has said what it pulls, and a killed one counts as ended, ms. */
const END_PULLS_MS = 60_000;

export function startPulling(runtime: Runtime): Part | undefined {
  const { config, mapping, pulls, rarely } = runtime;
  setTimeout(() => void endPulls(runtime).catch(() => {}), END_PULLS_MS).unref();
  const crms = pulledCrms(config, mapping);
  if (crms.length === 0) return undefined;
  const stop = new AbortController();
  const api = createCrmApi({
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    signal: stop.signal,
    wrapsLists: true,
    proxy: proxyOf(config),
  });
  const owner = randomUUID();
  // A CRM that is slow delays no other.
  const polls = crms.map((crm) => {
    const lease = pulls.leaseOf(crm.name);
    return startPolling({
      everyMs: LOOK_MS,
      async step(closing) {
        if (!(await isDue(runtime, crm.name)) || !(await lease.claim(owner))) return;
        const lost = new AbortController();
        const renew = async () => {
          if (!(await lease.claim(owner))) lost.abort();
        };
        const renewing = setInterval(() => void renew().catch(() => {}), RENEW_PULL_MS);
        try {
          // Another process may have done it before this one got the lease.
          if (!(await isDue(runtime, crm.name))) return;
          await pullCrm(runtime, api, crm, AbortSignal.any([closing, lost.signal]));
        } finally {
          clearInterval(renewing);
          await lease.release(owner);
        }
      },
      onError: (error) => rarely.warn({ err: error, crm: crm.name }, "pull.failed", crm.name),
    });
  });
  return {
    async close() {
      const closed = polls.map((poll) => poll.close());
      stop.abort();
      await Promise.all(closed);
      await api.close();
    },
  };
}

/** Forgets the CRMs that no running process pulls any more: they would stay overdue. */
async function endPulls({ heartbeats, pulls }: Runtime): Promise<void> {
  const running = await heartbeats.running();
  const settings = running.map((one) => String(one.settings?.["PULL_FROM"] ?? ""));
  await pulls.keepOnly(settings.flatMap((names) => names.split(",")));
}

async function isDue({ clock, pulls }: Runtime, crm: string): Promise<boolean> {
  const { at = 0, nextAt } = (await pulls.state(crm)) ?? { nextAt: 0 };
  // A last pull in the future was noted by a clock that was ahead: so was the next one.
  return nextAt <= clock.now() || at > clock.now() + CLOCK_MS;
}

/** Pulls all objects of one CRM, and keeps how that went. @throws what is not the CRM's fault. */
async function pullCrm(
  runtime: Runtime,
  api: CrmApi,
  crm: PulledCrm,
  signal: AbortSignal,
): Promise<void> {
  const { clock, config, log, mapping, pulls, rarely } = runtime;
  const began = clock.now();
  const everyMs = pullEveryMs(config.PULL_EVERY);
  const before = await pulls.state(crm.name);
  const until = performance.now() + everyMs;
  const { at, since = began } = before ?? {};
  let state: PullState = {
    objects: {},
    nextAt: 0,
    ...before,
    // Noted by a clock that was ahead, it would stay due, also while the CRM asks for a pause.
    ...(at !== undefined && { at: Math.min(at, began) }),
    since: Math.min(since, began),
    everyMs,
  };
  const keep = async (next: Partial<PullState>) => {
    signal.throwIfAborted();
    state = { ...state, ...next };
    await pulls.keep(crm.name, state);
  };
  // For what was missed until `lost.at` there is a finding and a listing already, which may take many pulls.
  const told = Math.max(state.at ?? began, state.lost?.at ?? 0);
  const isGap = began - told > GAP_MS;
  const isAhead = Math.max(at ?? 0, since) > began + AHEAD_MS;
  if (isGap || isAhead) await keep({ objects: {}, lost: { at: began, since: state.at ?? began } });
  const ends: string[] = [];
  let failed: PullFailed | undefined;
  for (const object of objectsOf(mapping)) {
    const pull = await objectToPull(runtime, api, crm, object, { signal, until }, async (done) =>
      keep({ objects: { ...state.objects, [object]: done } }),
    );
    try {
      const end = await pullObject(pull, state.objects[object]);
      ends.push(end);
      if (end !== "cursor_lost") continue;
      log.warn({ crm: crm.name }, "pull.cursor_lost");
      await keep({ lost: { at: clock.now(), since: state.at ?? began } });
    } catch (error) {
      if (!(error instanceof PullFailed) || signal.aborted) throw error;
      // What fails for one object need not fail for the next one, unless the CRM asks for a pause.
      failed ??= error;
      if (error.pauseMs > 0) break;
    }
  }
  if (failed === undefined && ends.every((end) => end === "unknown_object")) {
    failed = new PullFailed(mapping.objects.join(", "), NO_OBJECT);
  }
  if (failed === undefined) {
    const { failure: _, ...well } = state;
    state = well;
    const isAll = ends.every((end) => end !== "listing" && end !== "cursor_lost");
    return keep(isAll ? { at: began, nextAt: began + everyMs } : { nextAt: 0 });
  }
  rarely.warn({ crm: crm.name, why: failed.message }, "pull.not_answered", crm.name);
  await keep({
    failure: { since: state.failure?.since ?? began, why: failed.message },
    nextAt: clock.now() + Math.max(everyMs, failed.pauseMs),
  });
}

/** Also the parts of others: their changes are changes of their owners. */
const objectsOf = ({ objects, relations = [] }: Mapping): Iterable<string> => {
  const parts = relations.filter(({ isPart }) => isPart).map(({ object }) => object);
  return new Set([...objects, ...parts]);
};

const NO_OBJECT = {
  kind: "client_error",
  reason:
    "the CRM has none of the objects that the mapping names, or its credentials may not read them",
} as const;

async function objectToPull(
  runtime: Runtime,
  api: CrmApi,
  { name: crm, open, pauseMs, reader }: PulledCrm,
  object: string,
  { signal, until }: { readonly signal: AbortSignal; readonly until: number },
  keep: ObjectToPull["keep"],
): Promise<ObjectToPull> {
  const { clock, config, inbox, keyring, mapping, pulls, redis, thinEvents } = runtime;
  const memory = new MemoryGate(redis);
  return {
    crm,
    object,
    open,
    reader,
    api: politeApi(api, { pauseMs, setting: settingFor(config), signal }),
    fields: mapping.reads,
    contentOf: await keyring.contentHash(),
    // What belongs to it is read with it.
    isThin: reader !== undefined && needsRelated(mapping, object),
    relations: mapping.relations ?? [],
    notePart: (part, owner) =>
      void thinEvents.noteOwners({ crm, subject: part }, [owner]).catch(() => {}),
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
