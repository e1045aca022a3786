import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import {
  bulkFindings,
  bulkStatusOf,
  bulkShareText,
  bulkText,
} from "../../../src/operate/status/bulk.ts";
import type { Readings } from "../../../src/operate/status/readings.ts";
import { bulkPending, sentAt } from "../../../src/operate/status/stops.ts";

const NOW = Date.parse("2026-11-22T02:00:00Z");
const AT = new Date(NOW).toISOString();

const PAUSE = { since: NOW - 60_000, by: "ada@host", reason: "the CRM is being moved" };

/** A second for each request, after a running daemon. */
const readings = (more: Partial<Readings>): Readings => ({
  ...IDLE,
  now: NOW,
  processes: [{ id: "a:1", version: "1", roles: ["intake", "sync"], startedAt: NOW, seenAt: NOW }],
  quota: { ...IDLE.quota, drainedAt: ({ live, bulk }) => NOW + (live + bulk) * 1000 },
  ...more,
});

const statusOf = (more: Partial<Readings>) => bulkStatusOf(readings(more), 100);

it("nothing waits", () => {
  const idle = statusOf({});
  expect(idle).toMatchObject({ waiting: 0, plan: null, requests: 0, paused: null, endsAt: null });
  expect(bulkText(idle, AT)).toBe("nothing waits");
  expect([...bulkFindings(readings({}))]).toEqual([]);
});

const WAITING: Partial<Readings> = {
  unsynced: { live: 10, bulk: 300 },
  feeding: { id: "p", entries: 5000, left: 4600, requests: 4700 },
  isFeeding: true,
  minutes: [{ since: NOW, counts: { "sent bulk": 40, "sent live": 7 } }],
};

it("what a plan has still to feed counts, with the requests that it needs, after live changes", () => {
  const status = statusOf(WAITING);
  expect(status).toEqual({
    waiting: 300,
    plan: { id: "p", entries: 5000, left: 4600, running: true },
    requests: 5000,
    sentInLastHour: 40,
    paused: null,
    reserve: 100,
    endsAt: new Date(NOW + 5_010_000).toISOString(),
  });
  // The backlog has the same end.
  expect(sentAt(readings(WAITING))).toBe(NOW + 5_010_000);
  expect(bulkPending(readings(WAITING))).toBe(4900);
  expect(bulkText(status, AT)).toMatch(
    /^300 changes wait, and 4600 of 5000 are still to come from a plan · at least 5000 requests · ends .* \(in 84 min\)$/,
  );
  expect(bulkShareText(status, 1000)).toBe(
    "40 sent in the last hour; 100 of the hour's 1000 requests are left to live changes",
  );
});

it("records of the lane live that are to be retried do not hold it up, its own do", () => {
  const endOf = (lastRetryAt: Readings["lastRetryAt"]) =>
    statusOf({ unsynced: { live: 10, bulk: 30 }, lastRetryAt }).endsAt;
  const day = NOW + 86_400_000;
  expect(endOf({ live: day, bulk: 0 })).toBe(new Date(NOW + 40_000).toISOString());
  expect(endOf({ live: 0, bulk: day })).toBe(new Date(day).toISOString());
});

it("while the lane is paused its end and that of the backlog are unknown, and a finding says so", () => {
  const paused = readings({ ...WAITING, bulkPause: PAUSE });
  const status = bulkStatusOf(paused, 100);
  expect(status).toMatchObject({
    endsAt: null,
    paused: { ...PAUSE, since: "2026-11-22T01:59:00.000Z" },
  });
  expect(bulkText(status, AT)).toMatch(
    /^paused since .* by ada@host \(the CRM is being moved\) · 300 changes wait.* · ends unknown until crmsync bulk resume$/,
  );
  expect(sentAt(paused)).toBeUndefined();
  const onlyLive = { ...paused, unsynced: { live: 1, bulk: 0 }, feeding: undefined };
  expect(sentAt(onlyLive)).toBe(NOW + 1000);
  expect([...bulkFindings(paused)]).toMatchObject([
    {
      severity: "warning",
      says: "The lane bulk is paused since 2026-11-22T01:59:00Z by ada@host (the CRM is being moved). 4900 bulk changes wait until crmsync bulk resume; live changes go on.",
    },
  ]);
  const idle = statusOf({ bulkPause: { since: NOW, by: "ada@host" } });
  expect(bulkText(idle, AT)).toMatch(/^paused since [^(]* by ada@host$/);
});

it("a plan that no process carries out any more has no end, and a finding says so", () => {
  const interrupted = readings({ ...WAITING, isFeeding: false });
  const status = bulkStatusOf(interrupted, 100);
  expect(status).toMatchObject({ plan: { left: 4600, running: false }, endsAt: null });
  expect(bulkText(status, AT)).toMatch(/which was interrupted.* · ends unknown until the plan/);
  expect([...bulkFindings(interrupted)]).toMatchObject([
    { says: expect.stringContaining("interrupted with 4600 of 5000 changes left") as string },
  ]);
  // Its last changes wait: nothing is left to feed.
  const feeding = { id: "p", entries: 5000, left: 0, requests: 0 };
  expect([...bulkFindings({ ...interrupted, feeding })]).toEqual([]);
});

it("while all sending is stopped, the end is unknown", () => {
  const status = statusOf({ ...WAITING, paused: ["sync"] });
  expect(status.endsAt).toBeNull();
  expect(bulkText(status, AT)).toMatch(/ends unknown while sending is stopped or limited$/);
});
