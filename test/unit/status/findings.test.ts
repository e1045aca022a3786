import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import { runningAt } from "../../../src/core/state/heartbeats.ts";
import { findingsIn } from "../../../src/operate/status/findings.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { NO_DRIFT } from "../../../src/core/sync/drift.ts";

const NOW = Date.parse("2026-11-25T12:00:00Z");
const MINUTE = 60_000;
const GIB = 2 ** 30;

const process = {
  id: "host:1",
  version: "1",
  roles: ["http", "intake", "sync"],
  startedAt: NOW - MINUTE,
  seenAt: NOW - 1000,
};

const said = (readings: Partial<Readings>) =>
  findingsIn(
    { ...IDLE, now: NOW, sources: {}, processes: runningAt(NOW, [process]), ...readings },
    60 * MINUTE,
  ).map(({ runbook, says }) => [runbook.split("#")[1], says]);

it("a Redis that may still keep events out is not fine: it opens below 80 %", () => {
  const used = (share: number) =>
    said({ redis: { ...IDLE.redis, usedBytes: share * GIB, limitBytes: GIB } });
  expect(used(0.79)).toEqual([]);
  const section = "crmsyncredisnearlyfull";
  expect(used(0.82)).toEqual([[section, expect.stringMatching(/82 % .* and may not be now\.$/)]]);
  expect(used(0.86)).toEqual([
    [section, expect.stringMatching(/not accepted \(503\), until sync/)],
  ]);
});

it("says whose keys fill Redis, and is critical while events are kept out", () => {
  const found = (share: number, ownBytes: number | undefined) => {
    const redis = { ...IDLE.redis, usedBytes: share * GIB, limitBytes: GIB };
    const readings = { ...IDLE, now: NOW, sources: {}, processes: runningAt(NOW, [process]) };
    return findingsIn({ ...readings, redis, ownBytes }, 60 * MINUTE)[0];
  };
  expect(found(0.875, 3 * 2 ** 20)).toMatchObject({
    severity: "critical",
    says: "Redis uses 88 % of its memory (the keys of this crmsync 3 MiB, all others 893 MiB): events are not accepted (503), until another program has freed some. Give crmsync a Redis of its own, or Redis more memory.",
  });
  expect(found(0.875, 0.8 * GIB)).toMatchObject({
    severity: "critical",
    says: "Redis uses 88 % of its memory (the keys of this crmsync 819 MiB, all others 77 MiB): events are not accepted (503), until sync has freed some.",
  });
  expect(found(0.82, undefined)).toMatchObject({ severity: "warning" });
});

it("an embedded Redis whose disk is full is not fine, also between its ends", () => {
  expect(said({ dataDirMib: 16 })).toEqual([]);
  expect(said({ dataDirMib: 15.9 })).toEqual([
    ["crmsyncredisaway", expect.stringMatching(/^The disk of DATA_DIR is full \(15\.9 MiB left\)/)],
  ]);
});

it("a clock of Redis that was set is named for an hour", () => {
  const told = (stepMs: number, agoMs: number) =>
    said({ clockStep: { stepMs, at: NOW - agoMs } }).map(([, says]) => says);
  expect(told(-300_000, 59 * MINUTE)).toEqual([
    expect.stringMatching(/^Redis' clock was set back by 5 min \(/),
  ]);
  expect(told(2000, 0)).toEqual([expect.stringMatching(/was set forward by 2 s/)]);
  expect(told(-300_000, 61 * MINUTE)).toEqual([]);
});

it("many older events of one source that say something else are named, a few are not", () => {
  const older = (count: number) =>
    said({ minutes: [{ since: NOW - MINUTE, counts: { "older /crm/acme": count } }] });
  expect(older(9)).toEqual([]);
  expect(older(12)).toEqual([
    [
      "events-that-are-older-than-what-is-known",
      expect.stringMatching(/^In the last hour 12 events of \/crm\/acme were older .*reconcile/),
    ],
  ]);
});

it("a Redis without the replica that it demands rejects writes, and no process is blamed", () => {
  const redis = { ...IDLE.redis, hasEnoughReplicas: false };
  const silent = [{ ...process, seenAt: NOW - MINUTE }];
  for (const processes of [silent, []]) {
    expect(said({ redis, processes })).toEqual([
      [
        "crmsyncredisrejectswrites",
        "Redis rejects all writes: it has no replica, and its min-replicas-to-write demands one. It accepts no events, and nothing is sent.",
      ],
    ]);
  }
});

it("a CRM that has none of the records that its events name is not fine", () => {
  const told = (counts: Readonly<Record<string, number>>) => {
    const minutes = [{ since: NOW, counts }];
    return findingsIn(
      { ...IDLE, now: NOW, sources: {}, processes: runningAt(NOW, [process]), minutes },
      60 * MINUTE,
    ).map(({ about, says }) => `${about}: ${says}`);
  };
  const dropped = "fetched hubspot dropped";
  expect(told({ [dropped]: 2, "fetched hubspot found": 0 })).toEqual([]);
  expect(told({ [dropped]: 30, "fetched hubspot found": 1 })).toEqual([]);
  expect(told({ [dropped]: 3, "fetched hubspot found": 0, "fetched espocrm found": 9 })).toEqual([
    expect.stringMatching(/^hubspot: hubspot had none of the 3 changed records/),
  ]);
});

it("bulk work that takes hours is not stuck", () => {
  const waits = (live: number | undefined, bulk: number | undefined) =>
    said({
      oldest: { live: live && NOW - live * MINUTE, bulk: bulk && NOW - bulk * MINUTE },
      unsynced: { live: 1, bulk: 1 },
      quota: { ...IDLE.quota, remaining: 10 },
    }).map(([section]) => section);
  expect(waits(14, 16)).toEqual([]);
  expect(waits(undefined, 1439)).toEqual([]);
  expect(waits(undefined, 1441)).toEqual(["crmsyncchangestuck"]);
  expect(waits(16, undefined)).toEqual(["crmsyncchangestuck"]);
});

it("a bulk import of days is not stuck while it sends, a live change beside it is", () => {
  const minutes = [{ since: NOW - 50 * MINUTE, counts: { "sent bulk": 1 } }];
  const old = NOW - 2000 * MINUTE;
  expect(said({ minutes, oldest: { live: undefined, bulk: old } })).toEqual([]);
  expect(said({ minutes, oldest: { live: old, bulk: old } }).map(([section]) => section)).toEqual([
    "crmsyncchangestuck",
  ]);
});

it("a finding beside it does not hide that a change is stuck, unless all wait for the quota", () => {
  const sections = (readings: Partial<Readings>) =>
    said({
      oldest: { live: NOW - 16 * MINUTE, bulk: undefined },
      unsynced: { live: 1, bulk: 0 },
      quota: { ...IDLE.quota, remaining: 10 },
      ...readings,
    }).map(([section]) => section);
  const record = { records: 200, tries: 4, since: NOW - 16 * MINUTE, reason: "500", record: "ab" };
  expect(sections({ retried: record })).toEqual(["one-record-is-missing", "crmsyncchangestuck"]);
  expect(said({ retried: { ...record, records: 1, tries: 1 } })[0]?.[1]).toMatch(
    /retried once since/,
  );
  expect(sections({ valueListsKnown: false, inboxJobs: { delayed: 3 } })).toEqual([
    "the-value-lists-are-not-known",
    "crmsyncchangestuck",
  ]);
  expect(sections({ quota: { ...IDLE.quota, remaining: 0 } })).toEqual(["crmsyncquotaexhausted"]);
  expect(sections({ fallback: true })).toEqual(["crmsyncpacingsteady"]);
});

it("a record whose change is gone from Redis, or was replaced by a late request, is named", () => {
  expect(said({ lostChanges: 0, lostChange: undefined })).toEqual([]);
  const one =
    /^The newest change of 1 record .* gone from Redis.* late request .*its crmCode is ab/;
  expect(said({ lostChanges: 1, lostChange: "ab" })).toEqual([
    ["one-record-is-missing", expect.stringMatching(one)],
  ]);
  const [[, says = ""] = []] = said({ lostChanges: 2, lostChange: "ab" });
  expect(says).toMatch(/^The newest changes of 2 records .*the first crmCode is ab/);
});

it("changes that a CRM has lost are told until a comparison that began after it", () => {
  const lost = { salesforce: NOW - 10 * MINUTE };
  const comparison = { records: 1, equal: 1, drift: NO_DRIFT };
  const ranAt = (at: number) => ({ ...comparison, at: NOW - at * MINUTE, tookMs: 5 * MINUTE });
  const section = "crmsyncchangeslost";
  expect(said({ changesLost: lost })).toEqual([
    [section, expect.stringMatching(/^The CRM of the webhook salesforce .*2026-11-25T11:50:00Z/)],
  ]);
  expect(said({ changesLost: lost, reconciliation: ranAt(6) }).map(([one]) => one)).toEqual([
    section,
  ]);
  expect(said({ changesLost: lost, reconciliation: ranAt(4) })).toEqual([]);
});

it("webhooks whose changes are dated before 2000 are named", () => {
  expect(said({ undated: { "json/tool": NOW - 10 * MINUTE } })).toEqual([
    ["changes-are-dated-before-2000", expect.stringMatching(/^The webhook json\/tool .*11:50:00Z/)],
  ]);
});

it("a token that was issued in the future is not young", () => {
  // Today, in a time zone ahead of UTC.
  const aged = (days: number) => said({ tokenIssuedAt: NOW - days * 24 * 60 * MINUTE });
  expect(aged(-1)).toEqual([]);
  const issued = expect.stringMatching(/^SERVICE_TOKEN_ISSUED_AT is 320 days ahead/) as unknown;
  expect(aged(-320)).toEqual([["crmsynctokenold", issued]]);
});

it("a denial says how it is probed at once", () => {
  for (const cause of ["token", "address"] as const) {
    const denial = { cause, since: NOW, address: "", nextProbeAt: NOW + MINUTE, probes: 1 };
    expect(said({ denial })).toEqual([
      [
        `crmsync${cause}denied`,
        expect.stringMatching(
          /next probe 2026-11-25T12:01:00Z, or at once .*crmsync doctor is run\.$/,
        ),
      ],
    ]);
  }
});

it("the next try is that of the line, and never in the past", () => {
  const outage = { since: NOW - MINUTE, reason: "timeout", nextTryAt: NOW - 1000 };
  const tried = (more: Partial<Readings>) =>
    said({ outage, unsynced: { live: 1, bulk: 1 }, ...more }).find(([, says]) =>
      says?.startsWith("The service gives"),
    )?.[1] ?? "";
  const later = { live: NOW + MINUTE, bulk: NOW - MINUTE };
  const bulkPause = { since: NOW, by: "ada" };
  expect(tried({ firstDueAt: later, bulkPause })).toMatch(/; next try 2026-11-25T12:01:00Z\.$/);
  expect(tried({ firstDueAt: later })).toMatch(/; next try now\.$/);
  expect(tried({ firstDueAt: later, syncJobs: { active: 1 } })).toMatch(
    /; a change is being tried now\.$/,
  );
  const soon = { ...outage, nextTryAt: NOW + 2000 };
  expect(tried({ outage: soon, firstDueAt: later })).toMatch(/next try 2026-11-25T12:00:02Z/);
  expect(tried({ outage: soon })).toMatch(/; the next change tries it again\.$/);
});

it("an outage stops what may be sent, and not what an operator has paused", () => {
  const outage = { since: NOW - MINUTE, reason: "server_error", nextTryAt: NOW - 1000 };
  const bulkPause = { since: NOW - MINUTE, by: "root" };
  const isNamed = (readings: Partial<Readings>) =>
    said({ outage, ...readings }).some(([section]) => section === "crmsyncserviceunavailable");
  expect(isNamed({ unsynced: { live: 0, bulk: 8 } })).toBe(true);
  expect(isNamed({ unsynced: { live: 0, bulk: 8 }, bulkPause })).toBe(false);
  expect(isNamed({ unsynced: { live: 1, bulk: 8 }, bulkPause })).toBe(true);
  const rejecting = { ...outage, reason: "rejecting", nextTryAt: NOW + MINUTE };
  expect(said({ outage: rejecting })[0]?.[1]).toMatch(/^The service rejects everything since /);
});

it("value lists that were not fetched for a day are named, with their age", () => {
  const fetched = (hours: number) => said({ listsFetchedAt: NOW - hours * 60 * MINUTE });
  expect(fetched(24)).toEqual([]);
  expect(fetched(30)).toEqual([
    ["the-value-lists-are-old", expect.stringMatching(/^The tenant's value lists are 30\.0 h old/)],
  ]);
});

it("records that were sent without a value that is allowed by now are named until a comparison began", () => {
  const listsMissed = {
    at: NOW - 10 * MINUTE,
    records: { service: 2, branch: 1, industrySector: 0 },
  };
  const section = "values-that-the-lists-lacked";
  expect(said({ listsMissed })).toEqual([
    [section, expect.stringContaining("service (2 relations), branch (1 relation)")],
  ]);
  const about = { records: 1, equal: 1, drift: NO_DRIFT, tookMs: MINUTE };
  const after = (minutes: number) =>
    said({ listsMissed, reconciliation: { ...about, at: NOW - minutes * MINUTE } });
  expect(after(10).map(([where]) => where)).toEqual([section]);
  expect(after(5)).toEqual([]);
});

it("a source is silent after its longest pause of two weeks and half of it, an hour at least", () => {
  const HOUR = 60 * MINUTE;
  const silent = (
    lastAgo: number,
    known: { since?: number; pauses?: readonly (readonly [number, number])[] } = {},
  ) => {
    const { since = 30 * 24 * HOUR, pauses = [] } = known;
    const sourcePauses = {
      "/crm": { since: NOW - since, pauses: pauses.map(([ago, ms]) => [NOW - ago, ms] as const) },
    };
    return said({ sources: { "/crm": NOW - lastAgo }, sourcePauses }).map(([, says]) => says);
  };
  expect(silent(59 * MINUTE)).toEqual([]);
  expect(silent(61 * MINUTE)).toEqual(["/crm has sent nothing since 2026-11-25T10:59:00Z."]);
  const weekend = { pauses: [[72 * HOUR, 62 * HOUR]] } as const;
  expect(silent(71 * HOUR, weekend)).toEqual([]);
  expect(silent(94 * HOUR, { pauses: [[95 * HOUR, 62 * HOUR]] })).toEqual([
    expect.stringMatching(/; its longest pause before took 3 days\.$|took 62\.0 h\.$/),
  ]);
  // It is over two weeks before the last event.
  expect(silent(2 * HOUR, { pauses: [[15 * 24 * HOUR, 62 * HOUR]] })).toHaveLength(1);
  // However long it lasts.
  expect(silent(20 * 24 * HOUR)).toHaveLength(1);
  // It may have been a try.
  const tried = (ago: number) => silent(ago, { since: ago + MINUTE });
  expect([2, 25, 24 * 8].map((hours) => tried(hours * HOUR).length)).toEqual([0, 1, 0]);
});

it("the worst effect comes first, whatever found it; what a person has dealt with ends", () => {
  const redis = { ...IDLE.redis, usedBytes: 0.9 * GIB, limitBytes: GIB };
  const counts = { "checked intake rejected": 20, "rejected invalid birthDate": 20 };
  const found: Partial<Readings> = {
    redis,
    denial: { cause: "token", since: NOW, address: "", nextProbeAt: NOW + 1, probes: 0 },
    terminations: { held: 2, heldBy: { limit: 2 }, heldSince: NOW, counted: 0, limit: 10 },
    deadLetters: 20,
    deadReasons: { invalid: 20 },
    minutes: [{ since: NOW - MINUTE, counts }],
    fallback: true,
  };
  const sections = (more: Partial<Readings> = {}) =>
    said({ ...found, ...more }).map(([section]) => section);
  expect(sections()).toEqual([
    "crmsyncredisnearlyfull",
    "crmsynctokendenied",
    "crmsyncheldterminations",
    "crmsyncchangesrejected",
    "crmsyncdeadletters",
    "crmsyncpacingsteady",
  ]);
  expect(sections({ deadLetters: 0, deadReasons: {} })).not.toContain("crmsyncchangesrejected");
});

it("an emptied field, and an approval, are found while something of it is held", () => {
  const emptied = [{ field: "email", emptied: 50, updated: 50 }];
  const approval = {
    id: "a1",
    act: "held" as const,
    state: "open" as const,
    count: 1,
    about: [],
    asker: { by: "ada", names: [] },
    askedAt: NOW,
    expiresAt: NOW + MINUTE,
    at: NOW,
  };
  const sections = (held: number) =>
    said({
      emptied,
      emptyLimit: 20,
      approvals: [approval as unknown as Readings["approvals"][number]],
      terminations: {
        held,
        heldBy: { emptied: held },
        heldSince: held === 0 ? undefined : NOW,
        counted: 0,
        limit: 10,
      },
    }).map(([section]) => section);
  expect(sections(1)).toEqual([
    "crmsyncfieldsemptied",
    "crmsyncheldterminations",
    "an-act-waits-for-approval",
  ]);
  expect(sections(0)).toEqual([]);
});

it("a mapping that waits is named once for all its processes, and a module that cannot be approved", () => {
  const waits = (id: string, name: string, hash: string | undefined, since: number) => ({
    ...process,
    id,
    mappingWaits: { name, hash, since: NOW - since },
  });
  const hash = `sha256:${"0".repeat(64)}`;
  const processes = [
    waits("host:1", "new.yaml", hash, MINUTE),
    waits("host:2", "new.yaml", hash, 5 * MINUTE),
    waits("host:3", "map.ts", undefined, MINUTE),
  ];
  const section = "the-mapping-waits-for-approval";
  const beginning =
    /^The mapping new\.yaml \(00000000\) .* since 2026-11-25T11:55:00Z: 3 events wait unmapped\. Ask/;
  const found = said({ processes, inboxJobs: { wait: 2, delayed: 1, failed: 4 } });
  expect(found.filter(([name]) => name === section)).toEqual([
    [section, expect.stringMatching(beginning)],
    [section, expect.stringMatching(/^The mapping map\.ts waits .* is a module, which cannot be/)],
  ]);
});
