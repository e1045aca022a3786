import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { HOUR_PARTS, NEW, type Waiting } from "../../../src/core/quota/pacing.ts";
import { stateOf } from "../../../src/core/quota/quota.ts";
import { SLICES_KEPT } from "../../../src/core/sync/rank.ts";
import type { QuotaSnapshot } from "../../../src/core/quota/sliding-log.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { sentAt } from "../../../src/operate/status/stops.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");
const HOUR_MS = 3_600_000;

const quotaOf = (given: Partial<QuotaSnapshot> = {}) => {
  const snapshot: QuotaSnapshot = {
    now: NOW,
    limit: 1000,
    remaining: 1000,
    running: 0,
    taken: 2,
    nextReturnAt: NOW,
    allReturnedAt: NOW,
    foreign: 0,
    epoch: "",
    burst: 20,
    state: NEW,
    version: "",
    lowestRank: undefined,
    pacing: "burst",
    returns: Array.from({ length: HOUR_PARTS }, () => 0),
    demand: Array.from({ length: SLICES_KEPT }, () => 0),
    waiting: 0,
    hourMs: HOUR_MS,
    liveReserve: 100,
    ...given,
  };
  return stateOf(snapshot, { burst: 20, burstMs: 5000 });
};

const endOf = (unsynced: Waiting, more: Partial<Readings> = {}) => {
  const processes = [
    { id: "a:1", version: "1", roles: ["intake", "sync"], startedAt: NOW, seenAt: NOW },
  ];
  const readings = { ...IDLE, now: NOW, processes, unsynced, quota: quotaOf(), ...more };
  const at = sentAt(readings);
  return at === undefined ? undefined : at - NOW;
};

it("before the service's first reply, its count is not known, and so is the end", () => {
  expect(endOf({ live: 1, bulk: 0 }, { quota: quotaOf({ taken: 0 }) })).toBeUndefined();
  expect(endOf({ live: 1, bulk: 0 })).toBe(0);
});

it("a process that has just started lists the service and asks for the value lists first", () => {
  const warmUp = { ...IDLE.warmUp, state: "new" as const };
  expect(endOf({ live: 20, bulk: 0 })).toBe(0);
  expect(endOf({ live: 20, bulk: 0 }, { warmUp })).toBe(5000);
  expect(endOf({ live: 19, bulk: 0 }, { warmUp })).toBe(0);
  expect(endOf({ live: 19, bulk: 0 }, { warmUp, valueListsKnown: false })).toBe(5000);
});

it("events of the inbox and records to fetch count as well", () => {
  expect(endOf({ live: 0, bulk: 0 }, { inboxJobs: { wait: 21 } })).toBe(5000);
  expect(endOf({ live: 0, bulk: 0 }, { fetchJobs: { active: 1, wait: 20 } })).toBe(5000);
});

it("not before the last retry", () => {
  const lastRetryAt = { live: NOW + 700_000, bulk: NOW + 800_000 };
  expect(endOf({ live: 1, bulk: 0 }, { lastRetryAt })).toBe(800_000);
});

it("not before the end of a pause after a 429", () => {
  expect(
    endOf({ live: 21, bulk: 0 }, { quota: quotaOf({ state: { ...NEW, stop: NOW + 60_000 } }) }),
  ).toBe(65_000);
});

it("bulk work waits for what it must leave to live changes", () => {
  expect(endOf({ live: 0, bulk: 900 })).toBe(220_000);
  expect(endOf({ live: 0, bulk: 901 })).toBeGreaterThanOrEqual(HOUR_MS);
  expect(endOf({ live: 901, bulk: 0 })).toBe(225_000);
});

it("during an outage or a denial the end is unknown", () => {
  const outage = { since: NOW, reason: "timeout", nextTryAt: NOW + 1000 };
  expect(endOf({ live: 1, bulk: 0 }, { outage })).toBeUndefined();
});

it("what a plan has still to feed counts, and has no end while nobody carries the plan out", () => {
  const feeding = { id: "p", entries: 5000, left: 4600, requests: 900 };
  const fed = { feeding, isFeeding: true };
  expect(endOf({ live: 0, bulk: 0 }, fed)).toBe(endOf({ live: 0, bulk: 900 }));
  expect(endOf({ live: 1, bulk: 0 }, { feeding })).toBeUndefined();
});
