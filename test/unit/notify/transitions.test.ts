import { expect, it } from "vitest";
import {
  reconciledSince,
  transitions,
  type Notice,
  type NotifyState,
  type Topic,
} from "../../../src/people/notify/topics.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

const topic = (key = "crmsynctokendenied"): Topic => ({
  key,
  severity: "stopped",
  says: "The service denies the token.",
  runbook: `docs/runbook.md#${key}`,
  lastsHours: 1 / 120,
});

/** @param story minute → the topics that are in force from then on. */
function follow(story: Readonly<Record<number, readonly Topic[]>>, minutes: number) {
  let state: NotifyState = { topics: {} };
  let inForce: readonly Topic[] = [];
  const said: string[] = [];
  for (let second = 0; second <= minutes * 60; second += 5) {
    inForce = second % 60 === 0 ? (story[second / 60] ?? inForce) : inForce;
    const next = transitions(state, inForce, { now: second * 1000, hourMs: HOUR_MS });
    // What is stored is JSON.
    state = JSON.parse(JSON.stringify(next.state)) as NotifyState;
    said.push(...next.notices.map((notice) => shortOf(second, notice)));
  }
  return { said, state };
}

const shortOf = (second: number, { kind, since, until, times }: Notice): string =>
  [
    `${second / 60} min ${kind}`,
    `since ${since / MINUTE_MS}`,
    ...(until === undefined ? [] : [`until ${until / MINUTE_MS}`]),
    ...(times > 1 ? [`${times} times`] : []),
  ].join(", ");

it("a beginning and an end are notified once each, after they have lasted for half a minute", () => {
  const { said, state } = follow({ 1: [topic()], 10: [] }, 60);
  expect(said).toEqual(["1.5 min began, since 1", "10.5 min ended, since 1, until 10"]);
  expect(state).toEqual({ topics: {} });
});

it("what is over before it has lasted is not notified", () => {
  const { said } = follow({ 1: [{ ...topic(), lastsHours: 1 / 12 }], 5: [] }, 60);
  expect(said).toEqual([]);
});

it("what is gone only for a moment goes on", () => {
  let state: NotifyState = { topics: {} };
  const kinds: string[] = [];
  for (let second = 0; second < 600; second += 5) {
    const inForce = second % 60 < 40 ? [topic()] : [];
    const next = transitions(state, inForce, { now: second * 1000, hourMs: HOUR_MS });
    state = next.state;
    kinds.push(...next.notices.map(({ kind }) => kind));
  }
  expect(kinds).toEqual(["began"]);
});

it("what comes and goes again and again is notified at most every ten minutes, with how often", () => {
  const story: Record<number, readonly Topic[]> = {};
  for (let minute = 0; minute < 60; minute += 2) {
    story[minute] = [topic()];
    story[minute + 1] = [];
  }
  const { said } = follow(story, 80);
  expect(said.slice(0, 4)).toEqual([
    "0.5 min began, since 0",
    "1.5 min ended, since 0, until 1",
    "10.5 min began, since 10, 5 times",
    "11.5 min ended, since 10, until 11",
  ]);
  expect(said).toHaveLength(12);
  expect(said.at(-1)).toMatch(/ended/);
});

it("each topic is followed by itself", () => {
  const silent = topic("crmsyncsourcesilent /crm/a");
  const { said } = follow({ 1: [topic(), silent], 3: [silent] }, 10);
  expect(said).toHaveLength(3);
});

it("a comparison is notified once, and not one from before", () => {
  const reconciliation = (at: number) => ({
    at,
    tookMs: 1,
    records: 1,
    equal: 1,
    drift: {} as never,
  });
  const first = reconciledSince({ topics: {} }, reconciliation(5));
  expect(first.isNew).toBe(false);
  expect(reconciledSince(first.state, reconciliation(5)).isNew).toBe(false);
  expect(reconciledSince(first.state, reconciliation(9)).isNew).toBe(true);
  const none = reconciledSince({ topics: {} }, undefined);
  expect(reconciledSince(none.state, reconciliation(5)).isNew).toBe(true);
});
